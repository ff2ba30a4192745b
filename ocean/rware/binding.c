#include "rware.h"

#define ENV_NAME "rware"
typedef Rware Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "size", RWARE_TINY, RWARE_MEDIUM, &env->size) < 0) return -1;
    if (kwarg_int(kwargs, "num_robots", 1, RWARE_MAX_ROBOTS, &env->num_robots) < 0) return -1;
    if (kwarg_int(kwargs, "num_requests", 1, RWARE_MAX_REQUESTS, &env->num_requests) < 0) return -1;
    rware_configure(env);
    return kwarg_bool(kwargs, "shaped", &env->shaped);
}
