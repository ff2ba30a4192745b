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

static int my_log(PyObject* dict, const Log* log) {
    if (log_float(dict, "perf", log->perf) < 0) return -1;
    if (log_float(dict, "score", log->score) < 0) return -1;
    if (log_float(dict, "episode_return", log->episode_return) < 0) return -1;
    return log_float(dict, "episode_length", log->episode_length);
}
