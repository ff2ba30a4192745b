#include "trash_pickup.h"

#define ENV_NAME "trash_pickup"
typedef TrashPickup Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "num_trash", 1, TRASH_MAX_PIECES, &env->num_trash) < 0) return -1;
    return kwarg_int(kwargs, "num_bins", 1, TRASH_MAX_BINS, &env->num_bins);
}
