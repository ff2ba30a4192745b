#include "g2048.h"

#define ENV_NAME "g2048"
#define MY_SHARED
typedef G2048 Env;
typedef G2048Moves Shared;
#include "puffer_binding.h"

static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs) {
    g2048_fill_moves(shared);
    return 0;
}

static int my_init(Env* env, PyObject* args, PyObject* kwargs) { return 0; }
