#include "breakout.h"

#define ENV_NAME "breakout"
typedef Breakout Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "frameskip", 1, BREAKOUT_MAX_FRAMESKIP, &env->frameskip) < 0) return -1;
    return kwarg_bool(kwargs, "continuous", &env->is_continuous);
}
