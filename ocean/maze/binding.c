#include "maze.h"

#define ENV_NAME "maze"
typedef Maze Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "rooms", MAZE_MIN_ROOMS, MAZE_MAX_ROOMS, &env->rooms);
}
