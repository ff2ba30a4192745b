#include "drone.h"

#define ENV_NAME "drone"
typedef Drone Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "targets", DRONE_MIN_TARGETS, DRONE_MAX_TARGETS, &env->targets);
}
