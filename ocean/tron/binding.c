#include "tron.h"

#define ENV_NAME "tron"
#define ENV_TURNS
typedef Tron Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int agents = 0;
    if (kwarg_int(kwargs, "num_riders", 2, TRON_MAX_RIDERS, &env->num_riders) < 0) return -1;
    if (kwarg_int(kwargs, "agents", 1, 2, &agents) < 0) return -1;
    env->num_agents = agents == 1 ? 1 : env->num_riders;
    if (kwarg_int(kwargs, "size", TRON_MIN_SIZE, TRON_MAX_SIZE, &env->size) < 0) return -1;
    return kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random);
}
