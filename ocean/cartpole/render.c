#include "cartpole_render.h"

#define ENV_NAME "cartpole"
typedef Cartpole Env;
#include "puffer_render_module.h"
