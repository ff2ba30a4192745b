#include "bandit.h"

#define ENV_NAME "bandit"
typedef Bandit Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "pulls", BANDIT_MIN_PULLS, BANDIT_MAX_PULLS, &env->pulls);
}
