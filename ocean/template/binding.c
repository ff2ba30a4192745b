// The Python module of this environment: names for puffer_binding.h, keyword arguments in, log out.
#include "template.h"

#define ENV_NAME "template"
#define MY_SHARED  // with the two lines marked so below: leave out if there is nothing to share
typedef Template Env;
typedef TemplateShared Shared;  // MY_SHARED
#include "puffer_binding.h"

// Fills the shared table from the keyword arguments of shared(); this one needs none.
static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs) {  // MY_SHARED
    template_fill_shared(shared);
    return 0;
}

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
