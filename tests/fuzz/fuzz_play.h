// fuzz_play.h - plays environments as the bytes say: keyword arguments, actions, snapshots whole, damaged and forged.
//
// Beside what the sanitizers see, it holds of every step that rewards are finite, observations in their space, flags 0
// or 1 and never both, actions and the rows of environments that were not stepped untouched, final rows written at ends
// alone; that the log tells of all episodes; that a snapshot restores to the same bytes and the same future; that a
// damaged one or one of another version is refused, and what is refused changes nothing.
#pragma once

#include <float.h>
#include <limits.h>
#include <stddef.h>

#include "fuzz_python.h"

enum { MOST_ENVS = 4, MOST_STEPS = 4096, MOST_OPERATIONS = 64, LAST_STEPS = 256 };  // of one input

static uint64_t num_steps;  // of environments, in all inputs

static const float LOW_OF_OBSERVATIONS[] = {OBSERVATION_LOWS}, HIGH_OF_OBSERVATIONS[] = {OBSERVATION_HIGHS};

// What the log must tell of: the episodes that were seen to end since it was last read, and those that run.
typedef struct {
    double ends, lengths, returns;
    double *running_lengths, *running_returns;  // [agents], owned
} Tally;

typedef struct {
    Rows rows;
    PyObject* vec;   // held
    int num_agents;  // of all environments
    bool is_usual;   // made with the usual keyword arguments, whose spaces are known exactly
    bool has_final;
    bool is_forged;        // holds what no game led to: the log may tell anything
    bool has_forged_rows;  // observations too: an environment that writes only what changes leaves them there
    void* actions_before;
    uint8_t* where;  // [num_envs]: which environments are stepped
    Tally tally;
    Rng rng;
    int steps_left;
} Play;

// ------------------------------------------------------------------------------------------------------------ checks

// Checks are not instrumented: they read what the sanitizers saw written, and would take most of the time.
#define QUIET __attribute__((no_sanitize("address", "undefined", "coverage"))) static

// Counted, and the loop asked for, so that it becomes one of vectors.
#define COUNT_OUTSIDE(Type)                                                      \
    _Pragma("clang loop vectorize(enable)") for (size_t i = 0; i < count; i++) { \
        float value = (float)((const Type*)rows)[i];                             \
        outside += !(value >= low) | !(value <= high);                           \
    }                                                                            \
    break

// A value is finite, or beyond the largest float.
QUIET inline bool are_between(const void* rows, PufferType type, size_t count, float low, float high) {
    uint32_t outside = 0;
    low = low > -FLT_MAX ? low : -FLT_MAX;
    high = high < FLT_MAX ? high : FLT_MAX;
    switch (type) {
        case PUFFER_UINT8:
            COUNT_OUTSIDE(uint8_t);
        case PUFFER_INT8:
            COUNT_OUTSIDE(int8_t);
        case PUFFER_INT32:
            COUNT_OUTSIDE(int32_t);
        case PUFFER_FLOAT32:
            COUNT_OUTSIDE(float);
    }
    return outside == 0;
}

enum { NUM_BOUNDS = sizeof(LOW_OF_OBSERVATIONS) / sizeof(float) };

QUIET bool are_in_space(const Play* play, const char* rows) {
    if (play->has_forged_rows) return true;
    PufferType type = play->rows.layout.observation_type;
    size_t item = (size_t)ARRAY_TYPES[type].item_size, count = play->rows.bytes[OBSERVATIONS] / item;
    if (!play->is_usual) return are_between(rows, type, count, (float)ANY_LOW, (float)ANY_HIGH);
    const float *lows = LOW_OF_OBSERVATIONS, *highs = HIGH_OF_OBSERVATIONS;
    if (NUM_BOUNDS == 1) return are_between(rows, type, count, lows[0], highs[0]);
    bool are_all = true;
    for (size_t i = 0; i < count; i++) {
        are_all &= are_between(rows + i * item, type, 1, lows[i % NUM_BOUNDS], highs[i % NUM_BOUNDS]);
    }
    return are_all;
}

QUIET size_t row_bytes(const Play* play) { return play->rows.bytes[OBSERVATIONS] / (size_t)play->num_agents; }

enum { UNWRITTEN = 0xA5, LEAST_TELLING_ROW = 2 };  // a row of fewer bytes may hold nothing but these by chance

QUIET bool is_unwritten(const uint8_t* row, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (row[i] != UNWRITTEN) return false;
    }
    return true;
}

// A final row is written where an episode ended; it is then marked anew.
QUIET void check_final_rows(Play* play) {
    size_t bytes = row_bytes(play);
    if (!play->has_final || bytes < LEAST_TELLING_ROW) return;
    const uint8_t *terminals = play->rows.memory[TERMINALS], *truncations = play->rows.memory[TRUNCATIONS];
    for (int i = 0; i < play->num_agents; i++) {
        int env_index = i / play->rows.layout.num_agents;
        bool has_ended = play->where[env_index] && (terminals[i] || truncations[i]);
        uint8_t* row = (uint8_t*)play->rows.memory[FINAL] + bytes * (size_t)i;
        if (is_unwritten(row, bytes) == has_ended) broken("a final row was left out, or written where nothing ended");
        if (has_ended) memset(row, UNWRITTEN, bytes);
    }
}

// Of one agent that was stepped.
QUIET void count_agent(Play* play, int agent) {
    Tally* tally = &play->tally;
    float reward = ((const float*)play->rows.memory[REWARDS])[agent];
    uint8_t terminal = ((const uint8_t*)play->rows.memory[TERMINALS])[agent];
    uint8_t truncation = ((const uint8_t*)play->rows.memory[TRUNCATIONS])[agent];
    if (terminal > 1 || truncation > 1) broken("a flag is neither 0 nor 1");
    if (terminal && truncation) broken("an agent is both terminal and truncated");
    if (!isfinite(reward)) broken("a reward is not finite");
    tally->running_lengths[agent] += 1;
    tally->running_returns[agent] += (double)reward;
    if (!terminal && !truncation) return;
    tally->ends += 1;
    tally->lengths += tally->running_lengths[agent];
    tally->returns += tally->running_returns[agent];
    tally->running_lengths[agent] = tally->running_returns[agent] = 0;
}

QUIET void check_step(Play* play) {
    if (memcmp(play->actions_before, play->rows.memory[ACTIONS], play->rows.bytes[ACTIONS]) != 0) {
        broken("c_step wrote to the actions");
    }
    if (!are_in_space(play, play->rows.memory[OBSERVATIONS])) broken("an observation is outside of its space");
    for (int i = 0; i < play->num_agents; i++) {
        if (play->where[i / play->rows.layout.num_agents]) count_agent(play, i);
    }
    check_final_rows(play);
}

static bool is_near(double found, double expected, double count) {
    return fabs(found - expected) <= 1e-3 * (fabs(expected) + count);
}

static double log_number(PyObject* log, const char* name) { return PyFloat_AsDouble(PyDict_GetItemString(log, name)); }

static void check_log(Play* play) {
    PyObject* log = served(py_vec_log(NULL, play->vec), "the log could not be read");
    Tally* tally = &play->tally;
    if (!play->is_forged) {
        if (log_number(log, "n") != tally->ends) broken("the log tells of other episodes than the flags");
        if (!is_near(log_number(log, "episode_length"), tally->lengths, 0)) broken("the log tells of other lengths");
        if (!is_near(log_number(log, "episode_return"), tally->returns, tally->ends)) {
            broken("the log tells of other returns");
        }
        double perf = log_number(log, "perf");
        if (!(perf >= -1e-3 * tally->ends && perf <= 1.001 * tally->ends)) broken("perf is not between 0 and 1");
    }
    tally->ends = tally->lengths = tally->returns = 0;
    Py_DECREF(log);
}

// ------------------------------------------------------------------------------------------------------------- steps

typedef enum { LITERAL, INSIDE, AROUND, HELD } Manner;

QUIET int32_t discrete_action(Play* play, Manner manner, Input* input) {
    static const int32_t worst[] = {INT_MIN, INT_MAX, -1, 1 << 20};
    if (manner == LITERAL) return (int32_t)take_byte(input) - (NUM_CHOICES < 128 ? 64 : 0);
    if (manner == INSIDE) return rng_below(&play->rng, NUM_CHOICES);
    return rng_below(&play->rng, 64) ? rng_below(&play->rng, NUM_CHOICES + 4) - 1 : worst[rng_below(&play->rng, 4)];
}

QUIET float continuous_action(Play* play, Manner manner, Input* input) {
    static const float worst[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
    if (manner == LITERAL) return ((float)take_byte(input) - 128.0f) / 64.0f;
    if (manner == INSIDE) return rng_uniform(&play->rng, -1.0f, 1.0f);
    return rng_below(&play->rng, 64) ? rng_uniform(&play->rng, -1.5f, 1.5f) : worst[rng_below(&play->rng, 5)];
}

QUIET void draw_actions(Play* play, Manner manner, Input* input) {
    size_t count = play->rows.bytes[ACTIONS] / 4;
    for (size_t i = 0; i < count; i++) {
        if (play->rows.layout.action_type == PUFFER_FLOAT32) {
            ((float*)play->rows.memory[ACTIONS])[i] = continuous_action(play, manner, input);
        } else {
            ((int32_t*)play->rows.memory[ACTIONS])[i] = discrete_action(play, manner, input);
        }
    }
    memcpy(play->actions_before, play->rows.memory[ACTIONS], play->rows.bytes[ACTIONS]);
}

static void step_all(Play* play) {
    memset(play->where, 1, (size_t)play->rows.num_envs);
    Py_DECREF(served(py_vec_step(NULL, play->vec), "a step was refused"));
    num_steps += (uint64_t)play->rows.num_envs;
    play->steps_left -= play->rows.num_envs;
    check_step(play);
}

static void step_often(Play* play, Input* input, int count, Manner manner) {
    for (int i = 0; i < count && play->steps_left > 0; i++) {
        if (manner != HELD || i == 0) draw_actions(play, manner, input);
        step_all(play);
    }
}

static uint64_t hash_rows(const Play* play, int env_index) {
    uint64_t hash = 0;
    for (int i = 0; i < NUM_VIEWS; i++) {
        size_t bytes = play->rows.bytes[i] / (size_t)play->rows.num_envs;
        const char* rows = (const char*)play->rows.memory[i] + bytes * (size_t)env_index;
        hash = hash * 31 + snapshot_checksum(rows, (Py_ssize_t)bytes);
    }
    return hash;
}

// Steps some environments; the rows of the others stay as they are.
static void step_some(Play* play, Input* input) {
    uint64_t before[MOST_ENVS];
    uint32_t chosen = take_byte(input);
    draw_actions(play, AROUND, input);
    for (int i = 0; i < play->rows.num_envs; i++) {
        play->where[i] = (chosen >> i) & 1;
        before[i] = hash_rows(play, i);
        num_steps += play->where[i];
    }
    PyObject* where = PyBytes_FromStringAndSize((const char*)play->where, play->rows.num_envs);
    Py_DECREF(served(call_with(py_vec_step_where, play->vec, where), "a step of some was refused"));
    Py_DECREF(where);
    for (int i = 0; i < play->rows.num_envs; i++) {
        if (!play->where[i] && hash_rows(play, i) != before[i]) broken("the rows of another environment were written");
    }
    check_step(play);
}

static void reset(Play* play, Input* input) {
    PyObject* seed = PyLong_FromUnsignedLong(take_short(input));
    Py_DECREF(served(call_with(py_vec_reset, play->vec, seed), "a reset was refused"));
    Py_DECREF(seed);
    memset(play->where, 0, (size_t)play->rows.num_envs);
    memset(play->tally.running_lengths, 0, (size_t)play->num_agents * sizeof(double));
    memset(play->tally.running_returns, 0, (size_t)play->num_agents * sizeof(double));
    if (!are_in_space(play, play->rows.memory[OBSERVATIONS])) broken("a first observation is outside of its space");
    check_final_rows(play);
}

// --------------------------------------------------------------------------------------------------------- snapshots

static PyObject* snapshot_of(const Play* play) {
    return served(py_vec_snapshot(NULL, play->vec), "no snapshot was given");
}

static bool restore(const Play* play, PyObject* snapshot) {
    return was_served(call_with(py_vec_restore, play->vec, snapshot));
}

static bool is_same(PyObject* one, PyObject* other) {
    Py_ssize_t size = PyBytes_GET_SIZE(one);
    return PyBytes_GET_SIZE(other) == size &&
           memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), (size_t)size) == 0;
}

static void check_unchanged(const Play* play, PyObject* before, const char* otherwise) {
    PyObject* after = snapshot_of(play);
    if (!is_same(before, after)) broken(otherwise);
    Py_DECREF(after);
}

static PyObject* copy_of(PyObject* snapshot) {
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(snapshot), PyBytes_GET_SIZE(snapshot));
}

static PyObject* copy_of_now(const Play* play) {
    PyObject *snapshot = snapshot_of(play), *copy = copy_of(snapshot);
    Py_DECREF(snapshot);
    return copy;
}

static void seal(PyObject* snapshot) {
    SnapshotHeader header;
    char* bytes = PyBytes_AS_STRING(snapshot);
    memcpy(&header, bytes, sizeof(header));
    header.checksum =
        snapshot_checksum(bytes + sizeof(header), PyBytes_GET_SIZE(snapshot) - (Py_ssize_t)sizeof(header));
    memcpy(bytes, &header, sizeof(header));
}

// Bytes that a file may hold in place of a struct or a flag: some as the input says, some that are bad elsewhere.
static void overwrite(char* bytes, size_t size, Input* input) {
    static const float floats[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -1.0f, 0.5f, 300.0f, 1e9f};
    static const int32_t integers[] = {0, 1, 2, 5, -1, 127, 255, 32767, 1 << 20, INT_MAX, INT_MIN};
    for (uint32_t i = take_byte(input) % 4 + 1; i > 0; i--) {
        uint32_t kind = take_byte(input), width = kind & 4 ? 4 : 1, which = kind >> 3, at = take_short(input);
        uint32_t word = kind % 4 < 2 ? take_word(input) : 0;
        if (kind % 4 == 2) memcpy(&word, &floats[which % 8], sizeof(word));
        if (kind % 4 == 3) memcpy(&word, &integers[which % 11], sizeof(word));
        memcpy(bytes + at % (size / width) * width, &word, width);
    }
}

// A snapshot that somebody else wrote, whose checksum belongs to it: played, or refused and nothing changed.
static void forge(Play* play, Input* input) {
    PyObject* forged = copy_of_now(play);
    Py_ssize_t env_bytes = (PyBytes_GET_SIZE(forged) - (Py_ssize_t)sizeof(SnapshotHeader)) / play->rows.num_envs;
    uint32_t drawn = take_byte(input);
    char* env = PyBytes_AS_STRING(forged) + sizeof(SnapshotHeader) + drawn % (uint32_t)play->rows.num_envs * env_bytes;
    overwrite(env, drawn >= 240 ? (size_t)env_bytes : sizeof(Env), input);
    seal(forged);
    step_often(play, input, (int)(drawn >> 2 & 3), AROUND);  // so that what is restored differs from what is
    PyObject* before = snapshot_of(play);
    if (restore(play, forged)) {
        play->is_forged = true;
        play->has_forged_rows = play->has_forged_rows || drawn >= 240;
    } else {
        check_unchanged(play, before, "a snapshot was refused and changed something");
    }
    Py_DECREF(forged);
    Py_DECREF(before);
}

// A snapshot that broke on its way, at one place or in its length, or that another version took: always refused.
static void damage(Play* play, Input* input) {
    PyObject *before = snapshot_of(play), *damaged = copy_of_now(play);
    uint32_t kind = take_byte(input), at = take_word(input), flipped = take_byte(input);
    if (kind < 32) {
        Py_ssize_t size = at % (uint32_t)PyBytes_GET_SIZE(before);
        Py_SETREF(damaged, PyBytes_FromStringAndSize(PyBytes_AS_STRING(before), size));
    } else if (kind < 64) {
        Py_SETREF(damaged, PyBytes_FromFormat("%sPUFSNAP", PyBytes_AS_STRING(before)));
    } else if (kind < 96) {
        PyBytes_AS_STRING(damaged)[offsetof(SnapshotHeader, version)] ^= (char)(flipped ? flipped : 1);
    } else {
        PyBytes_AS_STRING(damaged)[at % (uint32_t)PyBytes_GET_SIZE(before)] ^= (char)(flipped ? flipped : 1);
    }
    if (restore(play, damaged)) broken("a damaged snapshot, or one of another version, was accepted");
    check_unchanged(play, before, "a damaged snapshot was refused and changed something");
    Py_DECREF(damaged);
    Py_DECREF(before);
}

static Tally tally_copy(const Tally* tally, int num_agents) {
    Tally copy = *tally;
    size_t bytes = (size_t)num_agents * sizeof(double);
    copy.running_lengths = memcpy(allocate(bytes), tally->running_lengths, bytes);
    copy.running_returns = memcpy(allocate(bytes), tally->running_returns, bytes);
    return copy;
}

static void tally_close(Tally* tally) {
    free(tally->running_lengths);
    free(tally->running_returns);
}

// Goes back by a snapshot, and comes by the same actions to the same state.
static void replay(Play* play, Input* input) {
    int count = (int)(take_byte(input) % 32), steps_left = play->steps_left;
    PyObject* before = snapshot_of(play);
    Tally tally = tally_copy(&play->tally, play->num_agents);
    Rng rng = play->rng;
    step_often(play, input, count, AROUND);
    PyObject* after = snapshot_of(play);
    if (!restore(play, before)) broken("what play led to was refused");
    check_unchanged(play, before, "a snapshot restored to other bytes");
    tally_close(&play->tally);
    play->tally = tally;
    play->rng = rng;
    play->steps_left = steps_left;
    step_often(play, input, count, AROUND);
    check_unchanged(play, after, "the same actions from the same snapshot led elsewhere");
    Py_DECREF(after);
    Py_DECREF(before);
}

// One environment of many, through its own handle: it is put back as it was.
static void put_one(Play* play, Input* input) {
    PyObject* index = PyLong_FromUnsignedLong(take_byte(input) % (uint32_t)play->rows.num_envs);
    PyObject* env = served(call_with(py_vec_env, play->vec, index), "no handle of one environment");
    PyObject *before = snapshot_of(play), *one = served(env_get(NULL, env), "no snapshot of one environment");
    Py_DECREF(served(call_with(env_put, env, one), "the snapshot of one environment was refused"));
    check_unchanged(play, before, "putting back one environment changed something");
    Py_DECREF(served(env_state(NULL, env), "no copy of one environment"));
    Py_DECREF(one);
    Py_DECREF(before);
    Py_DECREF(env);
    Py_DECREF(index);
}

// ------------------------------------------------------------------------------------------------------------- plays

// The keyword arguments of this play; where they are refused, the usual ones.
static PyObject* chosen_keywords(Play* play, Input* input, PufferLayout* layout) {
    play->is_usual = take_byte(input) % 2;
    if (!play->is_usual) {
        bool is_sound;
        PyObject* drawn = draw_keywords(input, &is_sound);
        if (layout_of(drawn, shared_of_env, layout)) {
            if (!is_sound) broken("keyword arguments outside of their ranges were taken");
            return drawn;
        }
        check_refusal();
        Py_DECREF(drawn);
    }
    play->is_usual = true;
    PyObject* usual = usual_keywords();
    if (!layout_of(usual, shared_of_env, layout)) broken("the usual keyword arguments were refused");
    return usual;
}

// How many steps these arguments leave time for.
static int steps_for(PyObject* kwargs) {
    double steps = MOST_STEPS;
    for (const Keyword* keyword = KEYWORDS_OF_ENV; keyword->name != NULL; keyword++) {
        if (keyword->cost == 1) continue;
        double value = PyFloat_AsDouble(PyDict_GetItemString(kwargs, keyword->name));
        steps /= pow(keyword->cost, value - keyword->low);
    }
    return (int)steps + 1;
}

static void play_open(Play* play, Input* input) {
    PufferLayout layout;
    PyObject* kwargs = chosen_keywords(play, input, &layout);
    uint32_t drawn = take_byte(input);
    play->rows = rows_open(layout, (int)(drawn % MOST_ENVS) + 1);
    play->num_agents = layout.num_agents * play->rows.num_envs;
    play->has_final = drawn & 4;
    play->vec = served(make_vec(&play->rows, take_short(input), kwargs), "sound arguments were refused");
    play->actions_before = allocate(play->rows.bytes[ACTIONS]);
    play->where = allocate((size_t)play->rows.num_envs);
    play->tally.running_lengths = allocate((size_t)play->num_agents * sizeof(double));
    play->tally.running_returns = allocate((size_t)play->num_agents * sizeof(double));
    play->rng = rng_seed(drawn, 0);
    play->steps_left = steps_for(kwargs);
    memset(play->rows.memory[FINAL], UNWRITTEN, play->rows.bytes[FINAL]);
    PyObject* final = play->has_final ? play->rows.views[FINAL] : Py_None;
    Py_DECREF(served(call_with(py_vec_keep_final, play->vec, final), "the final rows were refused"));
    Py_DECREF(kwargs);
    reset(play, input);
}

static void play_close(Play* play) {
    Py_DECREF(served(py_vec_close(NULL, play->vec), "a vec was not closed"));
    Py_DECREF(play->vec);
    rows_close(&play->rows);
    tally_close(&play->tally);
    free(play->actions_before);
    free(play->where);
}

static void operate(Play* play, Input* input) {
    uint32_t drawn = take_byte(input);
    switch (drawn % 8) {
        case 1:
            forge(play, input);
            break;
        case 2:
            damage(play, input);
            break;
        case 3:
            replay(play, input);
            break;
        case 4:
            reset(play, input);
            break;
        case 5:
            check_log(play);
            break;
        case 6:
            step_some(play, input);
            break;
        case 7:
            put_one(play, input);
            break;
        default: {
            int count = (int)take_byte(input);
            step_often(play, input, 1 + count * count / 64, (Manner)(drawn >> 3 & 3));
        }
    }
}

static void play_input(Input input) {
    Play play = {0};
    play_open(&play, &input);
    for (int i = 0; i < MOST_OPERATIONS && input.left > 0 && play.steps_left > 0; i++) operate(&play, &input);
    step_often(&play, &input, LAST_STEPS, INSIDE);  // what came of it all
    check_log(&play);
    play_close(&play);
}
