#include "overcooked.h"

#define ENV_NAME "overcooked"
typedef Overcooked Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "layout", 0, OVERCOOKED_ALL, &env->layout) < 0) return -1;
    if (kwarg_int(kwargs, "agents", 1, OVERCOOKED_COOKS, &env->num_agents) < 0) return -1;
    if (kwarg_int(kwargs, "bot_random", 0, 100, &env->bot_random) < 0) return -1;
    if (kwarg_float(kwargs, "soup_reward", 0.0, 100.0, &env->soup_reward) < 0) return -1;
    if (kwarg_float(kwargs, "onion_reward", 0.0, 100.0, &env->onion_reward) < 0) return -1;
    if (kwarg_float(kwargs, "dish_reward", 0.0, 100.0, &env->dish_reward) < 0) return -1;
    return kwarg_float(kwargs, "pickup_reward", 0.0, 100.0, &env->pickup_reward);
}
