// drive_env.c - steps any environment header at random, for the sanitizers; built by tests/ocean/test_headers.py.
//
//     gcc -include squared.h -DENV=Squared [-DSHARED=Table] drive_env.c -pthread -lm
//     ./a.out sizes                                 prints the sizes of the structs
//     ./a.out STRUCT SHARED|- ENVS THREADS STEPS    prints a hash of all that was written
//     ./a.out fuzz STRUCT SHARED|- TRIES STEPS      overwrites the struct, steps what c_accepts; prints how many it did
//
// STRUCT is a file with the bytes of one configured environment, SHARED one with those of its shared state. The hash
// depends on ENVS and STEPS only, never on THREADS.
#include <float.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_THREADS = 8 };

typedef struct {
    ENV env;
    PufferLayout layout;
    Rng actions_rng;
    void* actions;
    uint64_t hash;
} Case;

typedef struct {
    Case* cases;
    int count, steps;
} Job;

static void fail(const char* message) {
    fprintf(stderr, "drive_env: %s\n", message);
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

// Arrays of exactly the sizes that the layout names, so that a byte too far is an error.
static void case_open(Case* this, const ENV* configured, uint64_t index) {
    this->env = *configured;
    this->layout = c_layout(configured);
    size_t agents = (size_t)this->layout.num_agents;
    size_t observation_size = (size_t)this->layout.observation_size * item_size(this->layout.observation_type);
    this->env.observations = allocate(agents * observation_size);
    this->actions = allocate(agents * (size_t)this->layout.action_size * 4);
    this->env.actions = this->actions;
    this->env.rewards = allocate(agents * sizeof(float));
    this->env.terminals = allocate(agents);
    this->env.truncations = allocate(agents);
    this->env.final_observations = index % 2 ? allocate(agents * observation_size) : NULL;  // as if not wanted
    this->env.rng = rng_seed(1, index);
    this->actions_rng = rng_seed(2, index);
    this->hash = 0xCBF29CE484222325ull;
    c_reset(&this->env);
}

static void case_close(Case* this) {
    free(this->env.observations);
    free(this->actions);
    free(this->env.rewards);
    free(this->env.terminals);
    free(this->env.truncations);
    free(this->env.final_observations);
}

// Mostly actions around the space, now and then the worst a caller can send.
static int32_t random_discrete(Rng* rng) {
    static const int32_t worst[] = {INT_MIN, INT_MAX, -1, 1 << 20};
    return rng_below(rng, 64) ? rng_below(rng, 12) - 1 : worst[rng_below(rng, 4)];
}

static float random_continuous(Rng* rng) {
    static const float worst[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
    return rng_below(rng, 64) ? rng_uniform(rng, -1.5f, 1.5f) : worst[rng_below(rng, 5)];
}

static void case_step(Case* this) {
    int agents = this->layout.num_agents, actions = agents * this->layout.action_size;
    for (int i = 0; i < actions; i++) {
        if (this->layout.action_type == PUFFER_FLOAT32) {
            ((float*)this->actions)[i] = random_continuous(&this->actions_rng);
        } else {
            ((int32_t*)this->actions)[i] = random_discrete(&this->actions_rng);
        }
    }
    uint64_t actions_hash = hash_bytes(0, this->actions, (size_t)actions * 4);
    c_step(&this->env);
    if (hash_bytes(0, this->actions, (size_t)actions * 4) != actions_hash) fail("c_step wrote to the actions");
    for (int i = 0; i < agents; i++) {
        if (this->env.terminals[i] > 1 || this->env.truncations[i] > 1) fail("a flag is neither 0 nor 1");
        if (this->env.terminals[i] && this->env.truncations[i]) fail("an agent is both terminal and truncated");
        if (!isfinite(this->env.rewards[i])) fail("a reward is not finite");
    }
    size_t observation_size = (size_t)this->layout.observation_size * item_size(this->layout.observation_type);
    this->hash = hash_bytes(this->hash, this->env.observations, (size_t)agents * observation_size);
    this->hash = hash_bytes(this->hash, this->env.rewards, (size_t)agents * sizeof(float));
    this->hash = hash_bytes(this->hash, this->env.terminals, (size_t)agents);
    this->hash = hash_bytes(this->hash, this->env.truncations, (size_t)agents);
}

static void* run(void* argument) {
    Job* job = argument;
    for (int step = 0; step < job->steps; step++) {
        for (int i = 0; i < job->count; i++) {
            const ENV* env = &job->cases[i].env;
            case_step(&job->cases[i]);
            if (!c_accepts(env, env)) fail("c_accepts refuses what c_step led to");
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

// Bytes that a file may hold in place of a struct: some by chance, some that are bad elsewhere.
static void overwrite(ENV* env, Rng* rng) {
    static const float floats[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -1.0f, 0.5f, 300.0f, 1e9f};
    static const int32_t integers[] = {0, 1, 2, 5, -1, 127, 255, 32767, 1 << 20, INT_MAX, INT_MIN};
    unsigned char* bytes = (unsigned char*)env;
    for (int i = 1 + rng_below(rng, 4); i > 0; i--) {
        int kind = rng_below(rng, 4), size = rng_below(rng, 2) ? 4 : 1;
        uint32_t word = rng_next(rng);
        if (kind == 0) memcpy(&word, &floats[rng_below(rng, 8)], sizeof(word));
        if (kind == 1) memcpy(&word, &integers[rng_below(rng, 11)], sizeof(word));
        memcpy(bytes + rng_below(rng, (int)sizeof(ENV) / size) * size, &word, (size_t)size);
    }
}

// The struct with the borrowed pointers of a running environment, as the binding does.
static void attach(ENV* env, const ENV* running) {
    env->observations = running->observations;
    env->actions = running->actions;
    env->rewards = running->rewards;
    env->terminals = running->terminals;
    env->truncations = running->truncations;
    env->final_observations = running->final_observations;
#ifdef SHARED
    env->shared = running->shared;
#endif
}

static int fuzz(const ENV* configured, int tries, int steps) {
    Case this;
    case_open(&this, configured, 1);
    Rng rng = rng_seed(3, 0);
    ENV* tampered = allocate(sizeof(ENV));
    int accepted = 0;
    for (int i = 0; i < tries; i++) {
        for (int j = rng_below(&rng, 30); j >= 0; j--) case_step(&this);
        memcpy(tampered, &this.env, sizeof(ENV));
        overwrite(tampered, &rng);
        attach(tampered, &this.env);
        if (!c_accepts(&this.env, tampered)) continue;
        accepted++;
        memcpy(&this.env, tampered, sizeof(ENV));
        for (int j = 0; j < steps; j++) case_step(&this);
    }
    free(tampered);
    case_close(&this);
    return accepted;
}

static size_t shared_size(void) {
#ifdef SHARED
    return sizeof(SHARED);
#else
    return 0;
#endif
}

int main(int argc, char** argv) {
    if (argc == 2 && strcmp(argv[1], "sizes") == 0) {
        printf("%zu %zu\n", sizeof(ENV), shared_size());
        return 0;
    }
    bool is_fuzz = argc == 6 && strcmp(argv[1], "fuzz") == 0;
    if (argc != 6) fail("expected STRUCT SHARED ENVS THREADS STEPS, or fuzz STRUCT SHARED TRIES STEPS");
    char** files = argv + (is_fuzz ? 2 : 1);
    ENV* configured = allocate(sizeof(ENV));
    read_file(files[0], configured, sizeof(ENV));
    void* shared = NULL;
#ifdef SHARED
    shared = allocate(shared_size());
    read_file(files[1], shared, shared_size());
    configured->shared = shared;
#endif
    if (is_fuzz) {
        printf("%d\n", fuzz(configured, atoi(argv[4]), atoi(argv[5])));
        free(shared);
        free(configured);
        return 0;
    }
    int count = atoi(argv[3]), num_threads = atoi(argv[4]), steps = atoi(argv[5]);
    if (count < 1 || num_threads < 1 || num_threads > MAX_THREADS) fail("bad number of environments or threads");
    Case* cases = allocate((size_t)count * sizeof(Case));
    for (int i = 0; i < count; i++) case_open(&cases[i], configured, (uint64_t)i);
    run_threads(cases, count, num_threads, steps);

    uint64_t hash = 0;
    for (int i = 0; i < count; i++) hash = hash_bytes(hash, &cases[i].hash, sizeof(cases[i].hash));
    for (int i = 0; i < count; i++) case_close(&cases[i]);
    free(cases);
    free(shared);
    free(configured);
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
