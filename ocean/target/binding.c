// The Python module of target: keyword arguments in, statistics out.
#include "target.h"

#define ENV_NAME "target"
typedef Target Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "horizon", TARGET_MIN_HORIZON, TARGET_MAX_HORIZON, &env->horizon);
}
