// The Python module of this environment: names for puffer_binding.h, keyword arguments in, log out.
#include "template.h"

#define ENV_NAME "template"
typedef Template Env;
#include "puffer_binding.h"

// Fills the zeroed struct from keyword arguments, each with its range. kwarg_float and kwarg_bool exist too.
static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "rounds", TEMPLATE_MIN_ROUNDS, TEMPLATE_MAX_ROUNDS, &env->rounds);
}

// Names the members of the log; `n` is added for you.
static int my_log(PyObject* dict, const Log* log) {
    if (log_float(dict, "perf", log->perf) < 0) return -1;
    if (log_float(dict, "score", log->score) < 0) return -1;
    if (log_float(dict, "episode_return", log->episode_return) < 0) return -1;
    return log_float(dict, "episode_length", log->episode_length);
}
