#include "chess.h"

#define ENV_NAME "chess"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Chess Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int agents = 0;
    if (kwarg_int(kwargs, "agents", 1, 2, &agents) < 0) return -1;
    env->has_bot = agents == 1;
    if (kwarg_int(kwargs, "bot_depth", 0, CHESS_DRAWN_DEPTH, &env->bot_depth) < 0) return -1;
    env->draws_depth = env->bot_depth == CHESS_DRAWN_DEPTH;
    if (env->draws_depth) env->bot_depth = 0;
    if (kwarg_int(kwargs, "chance_games", 0, 100, &env->chance_games) < 0) return -1;
    if (kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random) < 0) return -1;
    if (kwarg_float(kwargs, "draw_penalty", 0.0, 1.0, &env->draw_penalty) < 0) return -1;
    return kwarg_float(kwargs, "piece_reward", 0.0, 1.0, &env->piece_reward);
}
