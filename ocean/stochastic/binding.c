#include "stochastic.h"

#define ENV_NAME "stochastic"
typedef Stochastic Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "steps", STOCHASTIC_MIN_STEPS, STOCHASTIC_MAX_STEPS, &env->steps);
}
