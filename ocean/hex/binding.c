#include "hex.h"

#define ENV_NAME "hex"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Hex Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int agents = 0;
    if (kwarg_int(kwargs, "agents", 1, 2, &agents) < 0) return -1;
    env->has_bot = agents == 1;
    if (kwarg_int(kwargs, "bot_strength", HEX_RANDOM, HEX_STRENGTHS - 1, &env->bot_strength) < 0) return -1;
    if (kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random) < 0) return -1;
    return kwarg_bool(kwargs, "swap", &env->has_swap);
}
