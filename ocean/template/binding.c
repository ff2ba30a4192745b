// The Python module of this environment: names for puffer_binding.h, and keyword arguments in.
#include "template.h"

#define ENV_NAME "template"
typedef Template Env;
#include "puffer_binding.h"

// Fills the zeroed struct from keyword arguments, each with its range. kwarg_float and kwarg_bool exist too.
static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "rounds", TEMPLATE_MIN_ROUNDS, TEMPLATE_MAX_ROUNDS, &env->rounds);
}
