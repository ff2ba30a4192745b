#include "breakout.h"

#define ENV_NAME "breakout"
typedef Breakout Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "frameskip", 1, BREAKOUT_MAX_FRAMESKIP, &env->frameskip) < 0) return -1;
    return kwarg_bool(kwargs, "continuous", &env->is_continuous);
}

static int my_log(PyObject* dict, const Log* log) {
    if (log_float(dict, "perf", log->perf) < 0) return -1;
    if (log_float(dict, "score", log->score) < 0) return -1;
    if (log_float(dict, "episode_return", log->episode_return) < 0) return -1;
    return log_float(dict, "episode_length", log->episode_length);
}
