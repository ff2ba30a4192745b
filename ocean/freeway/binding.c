#include "freeway.h"

#define ENV_NAME "freeway"
typedef Freeway Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int level = 0, frameskip = 0;
    if (kwarg_int(kwargs, "level", 0, FREEWAY_LEVELS, &level) < 0) return -1;
    if (kwarg_int(kwargs, "frameskip", 1, FREEWAY_MAX_FRAMESKIP, &frameskip) < 0) return -1;
    env->chosen_level = env->level = (int16_t)level;
    env->frameskip = (int16_t)frameskip;
    return kwarg_bool(kwargs, "to_kerb", &env->to_kerb);
}
