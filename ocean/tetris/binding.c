#include "tetris.h"

#define ENV_NAME "tetris"
typedef Tetris Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int level = 0;
    if (kwarg_int(kwargs, "level", 1, TETRIS_MAX_LEVEL, &level) < 0) return -1;
    env->starting_level = (int16_t)level;
    return kwarg_bool(kwargs, "shaped", &env->shaped);
}
