#include "pendulum.h"

#define ENV_NAME "pendulum"
typedef Pendulum Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) { return 0; }
