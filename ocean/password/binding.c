#include "password.h"

#define ENV_NAME "password"
typedef Password Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "length", PASSWORD_MIN_LENGTH, PASSWORD_MAX_LENGTH, &env->length);
}
