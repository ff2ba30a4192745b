#include "duel.h"

#define ENV_NAME "duel"
typedef Duel Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "goal", 1, 1000, &env->goal) < 0) return -1;
    return kwarg_bool(kwargs, "leaves", &env->leaves);
}
