// drive.c - steps any environment at random, for the sanitizers; tests/ocean/test_sanitizers.py links it with an object
// of drive_env.c for each environment and one that lists them, once for each sanitizer.
//
//     drive squared sizes                                           prints the sizes of the structs
//     drive squared STRUCT SHARED CHOICES ENVS THREADS STEPS        prints a hash of all that was written
//     drive squared fuzz STRUCT SHARED CHOICES TRIES STEPS          overwrites the struct, steps what c_accepts; prints
//                                                                   how many it did
//
// STRUCT is a file with the bytes of one configured environment, SHARED one with those of its shared state, CHOICES how
// many discrete actions there are. The hash depends on ENVS and STEPS only, never on THREADS.
#include "drive.h"

#include <float.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_THREADS = 8 };

extern const DrivenEnv* const DRIVEN_ENVS[];  // NULL at the end

typedef struct {
    const DrivenEnv* driven;
    void* env;  // owned, as are the arrays
    Rows rows;
    PufferLayout layout;
    int choices;
    Rng actions_rng;
    uint64_t hash;
} Case;

typedef struct {
    Case* cases;
    int count, steps;
} Job;

// What the command line says of an environment.
typedef struct {
    const DrivenEnv* driven;
    void* configured;  // owned, as is the table
    void* shared;
    int choices;
} Setup;

static void fail(const char* message) {
    fprintf(stderr, "drive: %s\n", message);
    exit(1);
}

static void read_file(const char* path, void* bytes, size_t size) {
    FILE* file = fopen(path, "rb");
    if (file == NULL || fread(bytes, 1, size, file) != size) fail(path);
    fclose(file);
}

static void* allocate(size_t size) {
    void* memory = calloc(1, size);
    if (memory == NULL) fail("out of memory");
    return memory;
}

static size_t item_size(PufferType type) { return type == PUFFER_INT32 || type == PUFFER_FLOAT32 ? 4 : 1; }

static uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char*)bytes)[i]) * 0x100000001B3ull;
    return hash;
}

static size_t observation_bytes(const PufferLayout* layout) {
    return (size_t)layout->num_agents * (size_t)layout->observation_size * item_size(layout->observation_type);
}

static size_t num_action_elements(const PufferLayout* layout) {
    return (size_t)layout->num_agents * (size_t)layout->action_size;
}

// Arrays of exactly the sizes that the layout names, so that a byte too far is an error.
static void case_open(Case* this, const Setup* setup, uint64_t index) {
    this->driven = setup->driven;
    this->env = allocate(setup->driven->env_bytes);
    memcpy(this->env, setup->configured, setup->driven->env_bytes);
    this->layout = setup->driven->layout(this->env);
    this->choices = setup->choices;
    size_t agents = (size_t)this->layout.num_agents;
    this->rows.observations = allocate(observation_bytes(&this->layout));
    this->rows.actions = allocate(num_action_elements(&this->layout) * 4);
    this->rows.rewards = allocate(agents * sizeof(float));
    this->rows.terminals = allocate(agents);
    this->rows.truncations = allocate(agents);
    this->rows.action_masks = allocate(agents * (size_t)this->layout.num_choices);
    this->rows.masks = allocate(agents);
    this->rows.final_observations = index % 2 ? allocate(observation_bytes(&this->layout)) : NULL;
    this->rows.shared = setup->shared;
    this->driven->attach(this->env, &this->rows);
    this->driven->seed(this->env, 1, index);
    this->actions_rng = rng_seed(2, index);
    this->hash = 0xCBF29CE484222325ull;
    this->driven->reset(this->env);
}

static void case_close(Case* this) {
    free(this->rows.observations);
    free(this->rows.actions);
    free(this->rows.rewards);
    free(this->rows.terminals);
    free(this->rows.truncations);
    free(this->rows.action_masks);
    free(this->rows.masks);
    free(this->rows.final_observations);
    free(this->env);
}

// Mostly actions around the space, now and then the worst a caller can send.
static int32_t random_discrete(Rng* rng, int choices) {
    static const int32_t worst[] = {INT_MIN, INT_MAX, -1, 1 << 20};
    return rng_below(rng, 64) ? rng_below(rng, choices + 4) - 1 : worst[rng_below(rng, 4)];
}

static float random_continuous(Rng* rng) {
    static const float worst[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
    return rng_below(rng, 64) ? rng_uniform(rng, -1.5f, 1.5f) : worst[rng_below(rng, 5)];
}

static void draw_actions(Case* this) {
    size_t count = num_action_elements(&this->layout);
    for (size_t i = 0; i < count; i++) {
        if (this->layout.action_type == PUFFER_FLOAT32) {
            ((float*)this->rows.actions)[i] = random_continuous(&this->actions_rng);
        } else {
            ((int32_t*)this->rows.actions)[i] = random_discrete(&this->actions_rng, this->choices);
        }
    }
}

static void check_rows(const Case* this) {
    for (int i = 0; i < this->layout.num_agents; i++) {
        uint8_t terminal = this->rows.terminals[i], truncation = this->rows.truncations[i];
        if (terminal > 1 || truncation > 1) fail("a flag is neither 0 nor 1");
        if (terminal && truncation) fail("an agent is both terminal and truncated");
        if (!isfinite(this->rows.rewards[i])) fail("a reward is not finite");
    }
}

static void case_step(Case* this) {
    size_t agents = (size_t)this->layout.num_agents, action_bytes = num_action_elements(&this->layout) * 4;
    draw_actions(this);
    uint64_t actions_hash = hash_bytes(0, this->rows.actions, action_bytes);
    this->driven->step(this->env);
    if (hash_bytes(0, this->rows.actions, action_bytes) != actions_hash) fail("c_step wrote to the actions");
    check_rows(this);
    this->hash = hash_bytes(this->hash, this->rows.observations, observation_bytes(&this->layout));
    this->hash = hash_bytes(this->hash, this->rows.rewards, agents * sizeof(float));
    this->hash = hash_bytes(this->hash, this->rows.terminals, agents);
    this->hash = hash_bytes(this->hash, this->rows.truncations, agents);
    this->hash = hash_bytes(this->hash, this->rows.action_masks, agents * (size_t)this->layout.num_choices);
    this->hash = hash_bytes(this->hash, this->rows.masks, agents);
}

static void* run(void* argument) {
    Job* job = argument;
    for (int step = 0; step < job->steps; step++) {
        for (int i = 0; i < job->count; i++) {
            Case* this = &job->cases[i];
            case_step(this);
            if (!this->driven->accepts(this->env, this->env)) fail("c_accepts refuses what c_step led to");
        }
    }
    return NULL;
}

static void run_threads(Case* cases, int count, int num_threads, int steps) {
    Job jobs[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    for (int i = 0; i < num_threads; i++) {
        int begin = count * i / num_threads, end = count * (i + 1) / num_threads;
        jobs[i] = (Job){cases + begin, end - begin, steps};
        if (pthread_create(&threads[i], NULL, run, &jobs[i]) != 0) fail("no thread");
    }
    for (int i = 0; i < num_threads; i++) pthread_join(threads[i], NULL);
}

static uint64_t hash_of_play(const Setup* setup, int count, int num_threads, int steps) {
    if (count < 1 || num_threads < 1 || num_threads > MAX_THREADS) fail("bad number of environments or threads");
    Case* cases = allocate((size_t)count * sizeof(Case));
    for (int i = 0; i < count; i++) case_open(&cases[i], setup, (uint64_t)i);
    run_threads(cases, count, num_threads, steps);
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) hash = hash_bytes(hash, &cases[i].hash, sizeof(cases[i].hash));
    for (int i = 0; i < count; i++) case_close(&cases[i]);
    free(cases);
    return hash;
}

// Bytes that a file may hold in place of a struct: some by chance, some that are bad elsewhere.
static void overwrite(unsigned char* bytes, int size, Rng* rng) {
    static const float floats[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -1.0f, 0.5f, 300.0f, 1e9f};
    static const int32_t integers[] = {0, 1, 2, 5, -1, 127, 255, 32767, 1 << 20, INT_MAX, INT_MIN};
    for (int i = 1 + rng_below(rng, 4); i > 0; i--) {
        int kind = rng_below(rng, 4), width = rng_below(rng, 2) ? 4 : 1;
        uint32_t word = rng_next(rng);
        if (kind == 0) memcpy(&word, &floats[rng_below(rng, 8)], sizeof(word));
        if (kind == 1) memcpy(&word, &integers[rng_below(rng, 11)], sizeof(word));
        memcpy(bytes + rng_below(rng, size / width) * width, &word, (size_t)width);
    }
}

static int fuzz(const Setup* setup, int tries, int steps) {
    Case this;
    case_open(&this, setup, 1);
    Rng rng = rng_seed(3, 0);
    size_t size = setup->driven->env_bytes;
    void* tampered = allocate(size);
    int accepted = 0;
    for (int i = 0; i < tries; i++) {
        for (int j = rng_below(&rng, 30); j >= 0; j--) case_step(&this);
        memcpy(tampered, this.env, size);
        overwrite(tampered, (int)size, &rng);
        this.driven->attach(tampered, &this.rows);
        if (!this.driven->accepts(this.env, tampered)) continue;
        accepted++;
        memcpy(this.env, tampered, size);
        for (int j = 0; j < steps; j++) case_step(&this);
    }
    free(tampered);
    case_close(&this);
    return accepted;
}

static const DrivenEnv* driven_env(const char* name) {
    for (int i = 0; DRIVEN_ENVS[i] != NULL; i++) {
        if (strcmp(DRIVEN_ENVS[i]->name, name) == 0) return DRIVEN_ENVS[i];
    }
    fail("no such environment");
    return NULL;
}

static Setup setup_open(const DrivenEnv* driven, char** files, int choices) {
    Setup setup = {driven, allocate(driven->env_bytes), NULL, choices};
    read_file(files[0], setup.configured, driven->env_bytes);
    if (driven->shared_bytes > 0) {
        setup.shared = allocate(driven->shared_bytes);
        read_file(files[1], setup.shared, driven->shared_bytes);
    }
    return setup;
}

static void setup_close(Setup* setup) {
    free(setup->configured);
    free(setup->shared);
}

int main(int argc, char** argv) {
    if (argc != 3 && argc != 8) fail("expected the arguments that the top of drive.c names");
    const DrivenEnv* driven = driven_env(argv[1]);
    if (argc == 3) {
        printf("%zu %zu\n", driven->env_bytes, driven->shared_bytes);
        return 0;
    }
    bool is_fuzz = strcmp(argv[2], "fuzz") == 0;
    char** rest = argv + (is_fuzz ? 3 : 2);
    Setup setup = setup_open(driven, rest, atoi(rest[2]));
    if (is_fuzz) {
        printf("%d\n", fuzz(&setup, atoi(rest[3]), atoi(rest[4])));
    } else {
        printf("%016llx\n", (unsigned long long)hash_of_play(&setup, atoi(rest[3]), atoi(rest[4]), atoi(rest[5])));
    }
    setup_close(&setup);
    return 0;
}
