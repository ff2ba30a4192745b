#include "faults.h"

#define ENV_NAME "faults"
typedef Faults Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "longest", 1, FAULTS_LONGEST, &env->longest);
}
