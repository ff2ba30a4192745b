#include "rware.h"

#define ENV_NAME "rware"
typedef Rware Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) { return kwarg_bool(kwargs, "shaped", &env->shaped); }
