#include "checkers.h"

#define ENV_NAME "checkers"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Checkers Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "bot_depth", 0, CHECKERS_MAX_DEPTH, &env->bot_depth) < 0) return -1;
    if (kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random) < 0) return -1;
    return kwarg_int(kwargs, "agents", 1, 2, &env->agents);
}
