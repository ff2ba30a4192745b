#include "pong_render.h"

#define ENV_NAME "pong"
typedef Pong Env;
#include "puffer_render_module.h"
