#include "memory.h"

#define ENV_NAME "memory"
typedef Memory Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "delay", MEMORY_MIN_DELAY, MEMORY_MAX_DELAY, &env->delay);
}
