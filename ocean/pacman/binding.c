#include "pacman.h"

#define ENV_NAME "pacman"
#define MY_SHARED
typedef Pacman Env;
typedef PacmanMaze Shared;
#include "puffer_binding.h"

static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs) {
    pacman_fill_maze(shared);
    return 0;
}

static int my_init(Env* env, PyObject* args, PyObject* kwargs) { return 0; }
