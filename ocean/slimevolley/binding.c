#include "slimevolley.h"

#define ENV_NAME "slimevolley"
#define ENV_TURNS
typedef Slimevolley Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "agents", 1, SLIMEVOLLEY_SIDES, &env->num_agents) < 0) return -1;
    if (kwarg_int(kwargs, "bot_strength", SLIMEVOLLEY_AT_RANDOM, SLIMEVOLLEY_FORESEES, &env->bot_strength) < 0)
        return -1;
    return kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random);
}
