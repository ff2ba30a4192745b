#include "cartpole.h"

#define ENV_NAME "cartpole"
typedef Cartpole Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_bool(kwargs, "continuous", &env->is_continuous);
}
