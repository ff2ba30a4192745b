#include "breakout_render.h"

#define ENV_NAME "breakout"
typedef Breakout Env;
#include "puffer_render_module.h"
