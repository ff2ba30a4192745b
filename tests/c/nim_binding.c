#include "nim.h"

#define ENV_NAME "nim"
#define ENV_ACTION_MASKS
#define ENV_TURNS
typedef Nim Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "stones", 1, NIM_MAX_STONES, &env->stones) < 0) return -1;
    if (kwarg_int(kwargs, "limit", 0, 1000, &env->limit) < 0) return -1;
    return kwarg_bool(kwargs, "bonus", &env->bonus);
}
