#include "squared_render.h"

#define ENV_NAME "squared"
typedef Squared Env;
#include "puffer_render_module.h"
