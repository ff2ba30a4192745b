// go_probe.c - both colours of ocean/go for a test to play, without the agent's rows; built by tests/ocean/test_go.py.
#include "../../ocean/go/go.h"

size_t probe_bytes(void) { return sizeof(Go); }

void probe_begin(Go* env, int size, int strength, uint64_t seed) {
    memset(env, 0, sizeof(*env));
    env->size = (int8_t)size;
    env->strength = (int8_t)strength;
    env->rng = rng_seed(seed, 0);
    go_clear(env);
}

uint64_t probe_stones(const Go* env, int color) { return env->stones[color]; }

uint64_t probe_allowed(Go* env, int color) { return go_allowed(env, color); }

int probe_may_play(Go* env, int color, int point) { return go_may_play(env, color, point); }

int probe_turn(Go* env, int color, int point) { return go_take_turn(env, color, point); }

uint64_t probe_chain(Go* env, int point) { return env->chains[go_root(env, point)]; }

uint64_t probe_threatened(const Go* env, int color) { return go_threatened(env, color); }

int probe_choose(Go* env, int color) { return go_choose(env, color); }

float probe_margin(const Go* env, int color) { return go_margin(env, color); }

int probe_accepts(const Go* env) { return c_accepts(env, env); }

// Begins a game against an opponent that is drawn; returns its strength.
int probe_draw(Go* env) {
    uint8_t observations[GO_BOARDS * GO_MAX_SIZE * GO_MAX_SIZE + 2], action_masks[GO_MAX_SIZE * GO_MAX_SIZE + 1];
    env->observations = observations;
    env->action_masks = action_masks;
    env->draws_strength = true;
    c_reset(env);
    env->observations = env->action_masks = NULL;
    return env->strength;
}
