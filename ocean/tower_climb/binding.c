#include "tower_climb.h"

#define ENV_NAME "tower_climb"
typedef TowerClimb Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "terraces", TOWER_MIN_TERRACES, TOWER_MAX_TERRACES, &env->terraces);
}
