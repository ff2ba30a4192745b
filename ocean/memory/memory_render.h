// memory_render.h - three lamps above a question mark and four keys. The key of the answer sinks at every step; when it
// counts the question lights up, a mark says whether that was right, and a ring shows the lamp that it was about. The
// bar is the time, of the longest that an episode may last.
#pragma once

#include "memory.h"
#include "puffer_lights.h"

typedef Memory Env;

enum { MEMORY_WIDTH = 720, MEMORY_HEIGHT = 560, MEMORY_MARGIN = 40, MEMORY_HEADER = 84 };
enum { MEMORY_LAMP_Y = 190, MEMORY_LAMP_RADIUS = 62, MEMORY_LAMP_PITCH = 200, MEMORY_QUESTION_Y = 340 };
enum { MEMORY_KEY_Y = 430, MEMORY_KEY_WIDTH = 142, MEMORY_KEY_HEIGHT = 64, MEMORY_KEY_GAP = 24 };
enum { MEMORY_BAR_HEIGHT = 10 };

static const char* const MEMORY_WORDS[MEMORY_NUM_ANSWERS] = {"NONE", "1", "2", "3"};

typedef struct {
    PufferTally answers;
    int lamp;  // that the last of them was about
} Client;

static PufferPicture c_open_client(Client* client, const Memory* env) {
    (void)client, (void)env;
    PufferPicture picture = {MEMORY_WIDTH, MEMORY_HEIGHT, 4.0f, "PufferLib memory"};
    return picture;
}

static bool memory_burns(const Memory* env, int lamp) { return env->step == 0 && env->lamp == lamp; }

// `outcome` is what is left of the flash after an answer, 1 to 0.
static void memory_draw_lamp(const Client* client, int lamp, float share, float outcome) {
    float x = 0.5f * MEMORY_WIDTH + (float)((lamp - 2) * MEMORY_LAMP_PITCH);
    puffer_lamp(x, MEMORY_LAMP_Y, MEMORY_LAMP_RADIUS, PUFFER_CYAN, share);
    puffer_text(MEMORY_WORDS[lamp], x, MEMORY_LAMP_Y + MEMORY_LAMP_RADIUS + 26.0f, 24.0f, PUFFER_CENTER, PUFFER_MUTED);
    if (outcome <= 0.0f || client->lamp != lamp) return;
    float grown = MEMORY_LAMP_RADIUS * (1.3f - 0.2f * outcome);
    Color color = client->answers.newest > 0.0f ? PUFFER_CYAN : PUFFER_RED;
    puffer_ring(x, MEMORY_LAMP_Y, grown, 6.0f, puffer_fade(color, outcome));
}

// Lit with `share`; `outcome` as above, in the place of the question.
static void memory_draw_question(const Client* client, float share, float outcome) {
    const float x = 0.5f * MEMORY_WIDTH;
    if (outcome > 0.0f) {
        puffer_mark(x, MEMORY_QUESTION_Y, 52.0f, client->answers.newest > 0.0f, outcome);
        return;
    }
    if (share > 0.0f) puffer_glow(x, MEMORY_QUESTION_Y, 90.0f, puffer_fade(PUFFER_WHITE, 0.25f * share));
    puffer_text("?", x, MEMORY_QUESTION_Y, 92.0f, PUFFER_CENTER, puffer_mix(PUFFER_PANEL, PUFFER_WHITE, share));
}

// The key of `answer` is pressed with `share`; no other is.
static void memory_draw_keys(int answer, float share) {
    for (int i = 0; i < MEMORY_NUM_ANSWERS; i++) {
        puffer_key((float)(MEMORY_MARGIN + i * (MEMORY_KEY_WIDTH + MEMORY_KEY_GAP)), MEMORY_KEY_Y, MEMORY_KEY_WIDTH,
                   MEMORY_KEY_HEIGHT, MEMORY_WORDS[i], PUFFER_CYAN, i == answer ? share : 0.0f);
    }
}

static void c_render(Client* client, const Memory* before, const Memory* now, float progress) {
    bool has_ended = before != now && now->terminals[0], is_between = progress < 1.0f;
    bool is_told = has_ended && progress >= 0.5f;  // what the answer came to, until the next episode is a step old
    if (is_told && puffer_tally_add(&client->answers, &now->rng, now->rewards[0])) client->lamp = before->lamp;
    bool is_after = !has_ended && before->step == 0 && client->answers.count > 0;
    float outcome = is_told ? 1.0f : is_after ? puffer_flash(progress, 0.8f) : 0.0f;
    float share = has_ended && is_between ? 0.0f : puffer_ease(progress);

    puffer_counter("RIGHT", TextFormat("%d / %d", (int)client->answers.sum, client->answers.count), MEMORY_MARGIN,
                   0.5f * MEMORY_HEADER, PUFFER_LEFT);
    for (int lamp = 1; lamp <= MEMORY_NUM_LAMPS; lamp++) {
        float light = puffer_lerp(memory_burns(before, lamp), memory_burns(now, lamp), share);
        memory_draw_lamp(client, lamp, light, outcome);
    }
    memory_draw_question(client, has_ended && is_between ? puffer_ease(fminf(4.0f * progress, 1.0f)) : 0.0f, outcome);
    memory_draw_keys(((const int32_t*)before->actions)[0], is_between ? sinf(PUFFER_PI * progress) : 0.0f);
    float steps = is_between ? (float)before->step + progress : (float)now->step;
    puffer_bar(MEMORY_MARGIN, MEMORY_HEIGHT - 36.0f, MEMORY_WIDTH - 2 * MEMORY_MARGIN, MEMORY_BAR_HEIGHT,
               steps / (float)(now->delay + 1), PUFFER_CYAN);
}

static void c_close_client(Client* client) { (void)client; }
