#include "go.h"

#define ENV_NAME "go"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Go Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int size = 0, strength = 0, agents = 0;
    if (kwarg_int(kwargs, "size", GO_MIN_SIZE, GO_MAX_SIZE, &size) < 0) return -1;
    if (kwarg_int(kwargs, "strength", GO_RANDOM, GO_DRAWN, &strength) < 0) return -1;
    if (kwarg_int(kwargs, "agents", 1, 2, &agents) < 0) return -1;
    env->agents = (int8_t)agents;
    env->size = (int8_t)size;
    env->draws_strength = strength == GO_DRAWN;
    env->strength = (int8_t)(env->draws_strength ? GO_RANDOM : strength);
    return 0;
}
