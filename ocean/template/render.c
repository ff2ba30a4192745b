#include "template_render.h"

#define ENV_NAME "template"
typedef Template Env;
#include "puffer_render_module.h"
