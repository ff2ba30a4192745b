// drive_env.c - one environment for drive.c: gcc -c -include squared.h -DENV=Squared -DNAME=squared [-DSHARED=Table]
// [-DENV_ACTION_MASKS] [-DENV_TURNS]
#include "drive.h"

#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)
#define JOIN_OF(one, other) one##other
#define JOIN(one, other) JOIN_OF(one, other)

static PufferLayout env_layout(const void* env) { return c_layout((const ENV*)env); }

static void env_attach(void* bytes, const Rows* rows) {
    ENV* env = bytes;
    env->observations = rows->observations;
    env->actions = rows->actions;
    env->rewards = rows->rewards;
    env->terminals = rows->terminals;
    env->truncations = rows->truncations;
#ifdef ENV_ACTION_MASKS
    env->action_masks = rows->action_masks;
#endif
#ifdef ENV_TURNS
    env->masks = rows->masks;
#endif
    env->final_observations = rows->final_observations;
#ifdef SHARED
    env->shared = rows->shared;
#endif
}

static void env_seed(void* env, uint64_t seed, uint64_t index) { ((ENV*)env)->rng = rng_seed(seed, index); }
static void env_reset(void* env) { c_reset((ENV*)env); }
static void env_step(void* env) { c_step((ENV*)env); }
static bool env_accepts(const void* env, const void* saved) { return c_accepts((const ENV*)env, (const ENV*)saved); }

extern const DrivenEnv JOIN(drive_, NAME);
const DrivenEnv JOIN(drive_, NAME) = {
    .name = TEXT(NAME),
    .env_bytes = sizeof(ENV),
#ifdef SHARED
    .shared_bytes = sizeof(SHARED),
#endif
    .layout = env_layout,
    .attach = env_attach,
    .seed = env_seed,
    .reset = env_reset,
    .step = env_step,
    .accepts = env_accepts,
};
