#include "squared.h"

#define ENV_NAME "squared"
typedef Squared Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    int size = 0;
    if (kwarg_int(kwargs, "size", SQUARED_MIN_SIZE, SQUARED_MAX_SIZE, &size) < 0) return -1;
    env->size = (int16_t)size;
    return 0;
}
