#include "poker.h"

#define ENV_NAME "poker"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Poker Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "game", POKER_KUHN, POKER_NUM_GAMES - 1, &env->game) < 0) return -1;
    if (kwarg_int(kwargs, "agents", 1, 2, &env->num_agents) < 0) return -1;
    poker_configure(env);
    return kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random);
}
