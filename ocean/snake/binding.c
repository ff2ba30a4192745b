#include "snake.h"

#define ENV_NAME "snake"
typedef Snake Env;
#include "puffer_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    if (kwarg_int(kwargs, "num_snakes", 1, SNAKE_MAX_SNAKES, &env->num_snakes) < 0) return -1;
    if (kwarg_int(kwargs, "width", SNAKE_MIN_WIDTH, SNAKE_MAX_WIDTH, &env->width) < 0) return -1;
    if (kwarg_int(kwargs, "height", SNAKE_MIN_HEIGHT, SNAKE_MAX_HEIGHT, &env->height) < 0) return -1;
    snake_configure(env);
    return 0;
}
