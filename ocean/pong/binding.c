#include "pong.h"

#define ENV_NAME "pong"
typedef Pong Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "frameskip", PONG_MIN_FRAMESKIP, PONG_MAX_FRAMESKIP, &env->frameskip) < 0) return -1;
    return kwarg_bool(kwargs, "continuous", &env->is_continuous);
}
