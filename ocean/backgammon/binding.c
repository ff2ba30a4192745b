#include "backgammon.h"

#define ENV_NAME "backgammon"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Backgammon Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "agents", 1, 2, &env->num_agents) < 0) return -1;
    return kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random);
}
