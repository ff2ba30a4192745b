#include "multiagent.h"

#define ENV_NAME "multiagent"
typedef Multiagent Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "steps", MULTIAGENT_MIN_STEPS, MULTIAGENT_MAX_STEPS, &env->steps);
}
