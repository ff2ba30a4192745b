#include "enduro.h"

#define ENV_NAME "enduro"
typedef Enduro Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "frameskip", ENDURO_MIN_FRAMESKIP, ENDURO_MAX_FRAMESKIP, &env->frameskip) < 0) return -1;
    return kwarg_int(kwargs, "days", ENDURO_MIN_DAYS, ENDURO_MAX_DAYS, &env->days);
}
