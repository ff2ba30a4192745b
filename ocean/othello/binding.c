#include "othello.h"

#define ENV_NAME "othello"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Othello Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int agents = 0;
    if (kwarg_int(kwargs, "agents", 1, 2, &agents) < 0) return -1;
    env->has_bot = agents == 1;
    if (kwarg_int(kwargs, "bot_depth", 0, OTHELLO_MAX_DEPTH, &env->bot_depth) < 0) return -1;
    return kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random);
}
