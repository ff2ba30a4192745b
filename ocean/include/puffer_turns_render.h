// puffer_turns_render.h - what the pictures of games of puffer_turns.h have in common: a step played again, and how
// many games were won. The game's own header comes first.
#pragma once

#include "puffer_render.h"

// The game before each turn of a step, and after the last.
typedef struct {
    TurnsEnv moments[3];
    int count;
} TurnsStep;

static inline TurnsStep turns_step(const TurnsEnv* before) {
    TurnsStep step = {.moments = {*before}, .count = 1};
    TurnsEnv* moment = &step.moments[1];
    *moment = *before;
    if (turns_asks_bot(before)) {
        turns_answer(moment);
    } else {
        turns_play(moment, ((const int32_t*)before->actions)[turns_seat(before)]);
    }
    moment->num_turns++;
    if (!before->has_bot || turns_result(moment) != TURNS_UNDECIDED) return step;
    step.moments[2] = *moment;
    turns_answer(&step.moments[2]);
    step.moments[2].num_turns++;
    step.count = 2;
    return step;
}

// Games that ended while the picture was watched, as the agent of the first row counts them.
typedef struct {
    uint64_t
        ended_before;  // state of the random numbers before the step that ended the last game: it tells games apart
    int num_won, num_drawn, num_lost;
} TurnsTally;

static inline void turns_count(TurnsTally* tally, const TurnsEnv* before, const TurnsEnv* now) {
    if (tally->ended_before == before->rng.state) return;
    tally->ended_before = before->rng.state;
    tally->num_won += now->rewards[0] > 0.0f;
    tally->num_drawn += now->rewards[0] == 0.0f;
    tally->num_lost += now->rewards[0] < 0.0f;
}

static inline Color turns_color(int seat) { return seat == 0 ? PUFFER_CYAN : PUFFER_RED; }

// Both counts at the ends of a line, and beside the first one the games that were drawn, if there are any.
static inline void turns_draw_tally(const TurnsTally* tally, float left, float right, float y) {
    float up = tally->num_drawn ? 16.0f : 0.0f;
    puffer_counter("WON", TextFormat("%d", tally->num_won), left, y - up, PUFFER_LEFT);
    puffer_counter("LOST", TextFormat("%d", tally->num_lost), right, y - up, PUFFER_RIGHT);
    if (up > 0.0f)
        puffer_text(TextFormat("%d DRAWN", tally->num_drawn), left, y + 26.0f, 18.0f, PUFFER_LEFT, PUFFER_MUTED);
}
