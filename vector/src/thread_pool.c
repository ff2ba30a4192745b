// thread_pool.c - see thread_pool.h.
//
// Memory order. pool_submit links the job into the queue under the mutex, and a thread attaches to it under the same
// mutex, so all that was written before pool_submit (the job, the actions) is visible to the thread. Items are claimed
// by a relaxed compare-and-swap of both bounds of a part: an atomic read-modify-write gives each item out once, and no
// data travels through it. A thread leaves a job by a release decrement of num_helpers, after its last item;
// pool_finish returns once it has read zero with acquire, which makes the work of every helper visible to the caller.
// By then the caller has itself found all parts empty, which they stay until the next pool_submit, and has unlinked the
// job under the mutex, so no thread attaches any more, and zero is final. A helper does not touch the job after its
// decrement, so the caller may free it. The counters that spinning threads watch are only hints: a thread that saw one
// change takes the mutex before it acts.
#define _POSIX_C_SOURCE 200809L
#include "thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    CLAIM_ALIGNMENT = 64,      // items: neighbours in a byte array then share no cache line
    CLAIM_DIVISOR = 4,         // a claim is a quarter of what a part has left: large first, small where the ends meet
    SPIN_NANOSECONDS = 50000,  // some three times what it takes to wake a thread
    PAUSES_PER_LOOK = 32,      // at the clock, which takes longer to read than the counter that is watched
};

typedef struct {
    ThreadPool* pool;  // borrowed
    int index;
    bool is_hurried;  // the last wait was short, so that spinning is worth it
} Worker;

struct ThreadPool {
    int num_threads, num_started;  // the caller included in the first, not in the second
    pid_t owner;                   // the process that has the threads
    pthread_t* threads;            // owned, [num_started]
    Worker* workers;               // owned, [num_started]
    pthread_mutex_t mutex;         // guards all below
    pthread_cond_t work, done;
    PoolJob* queue;  // borrowed; oldest first
    int num_sleeping, num_waiting;
    bool is_stopping;
    int64_t submitted_at;       // nanoseconds, when num_submitted last changed
    atomic_uint num_submitted;  // changed under the mutex, watched without it
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// ------------------------------------------------------------------------------------------------ sharing out a job

static uint64_t pack_range(int begin, int end) { return (uint64_t)(uint32_t)end << 32 | (uint32_t)begin; }
static int range_begin(uint64_t range) { return (int)(uint32_t)range; }
static int range_end(uint64_t range) { return (int)(range >> 32); }

static int divide_up(int value, int divisor) { return value / divisor + (value % divisor > 0); }
static int align_up(int value, int alignment) { return divide_up(value, alignment) * alignment; }

// Long jobs are cut on cache lines, short ones, where an item is likely to be heavy, anywhere.
static void divide_job(PoolJob* job, int num_threads) {
    job->num_parts = num_threads < POOL_MAX_PARTS ? num_threads : POOL_MAX_PARTS;
    job->alignment = job->count / CLAIM_ALIGNMENT < num_threads ? 1 : CLAIM_ALIGNMENT;
    int share = align_up(divide_up(job->count, job->num_parts), job->alignment), end = 0;
    for (int i = 0; i < job->num_parts; i++) {
        int begin = end;
        end = job->count - begin < share ? job->count : begin + share;
        atomic_store_explicit(&job->parts[i].unclaimed, pack_range(begin, end), memory_order_relaxed);
    }
}

static int claim_size(const PoolJob* job, int unclaimed) {
    int size = align_up(divide_up(unclaimed, CLAIM_DIVISOR), job->alignment);
    return size < unclaimed ? size : unclaimed;
}

// Does the unclaimed items of a part: from the front of its own part, from the back of another one.
static void run_part(PoolJob* job, PoolPart* part, bool is_own, int worker) {
    uint64_t range = atomic_load_explicit(&part->unclaimed, memory_order_relaxed);
    while (range_begin(range) < range_end(range)) {
        int begin = range_begin(range), end = range_end(range), size = claim_size(job, end - begin);
        uint64_t rest = is_own ? pack_range(begin + size, end) : pack_range(begin, end - size);
        if (!atomic_compare_exchange_weak_explicit(&part->unclaimed, &range, rest, memory_order_relaxed,
                                                   memory_order_relaxed)) {
            continue;
        }
        int first = is_own ? begin : end - size;
        job->task(job->context, first, first + size, worker);
        range = atomic_load_explicit(&part->unclaimed, memory_order_relaxed);
    }
}

static void run_job(PoolJob* job, int worker) {
    int own = worker % job->num_parts;
    run_part(job, &job->parts[own], true, worker);
    for (int i = 1; i < job->num_parts; i++) {
        run_part(job, &job->parts[(own + i) % job->num_parts], false, worker);
    }
}

// ---------------------------------------------------------------------------------- the queue; the mutex is held

static bool has_unclaimed_items(PoolJob* job) {
    for (int i = 0; i < job->num_parts; i++) {
        uint64_t range = atomic_load_explicit(&job->parts[i].unclaimed, memory_order_relaxed);
        if (range_begin(range) < range_end(range)) return true;
    }
    return false;
}

static void enqueue(ThreadPool* pool, PoolJob* job) {
    PoolJob** link = &pool->queue;
    while (*link != NULL) link = &(*link)->following;
    *link = job;
    job->following = NULL;
}

static void unlink_job(ThreadPool* pool, PoolJob* job) {
    for (PoolJob** link = &pool->queue; *link != NULL; link = &(*link)->following) {
        if (*link != job) continue;
        *link = job->following;
        return;
    }
}

// Joins the oldest job that has work left; NULL when there is none.
static PoolJob* attach(ThreadPool* pool) {
    while (pool->queue != NULL && !has_unclaimed_items(pool->queue)) pool->queue = pool->queue->following;
    PoolJob* job = pool->queue;
    if (job != NULL) atomic_fetch_add_explicit(&job->num_helpers, 1, memory_order_relaxed);
    return job;
}

static void detach(ThreadPool* pool, PoolJob* job) {
    int others = atomic_fetch_sub_explicit(&job->num_helpers, 1, memory_order_release) - 1;
    if (others == 0 && pool->num_waiting > 0) pthread_cond_broadcast(&pool->done);
}

// Watches for something to be submitted, for a while.
static void spin_for_work(ThreadPool* pool, unsigned seen, int64_t since) {
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (atomic_load_explicit(&pool->num_submitted, memory_order_relaxed) != seen) return;
            relax();
        }
    } while (now() - since < SPIN_NANOSECONDS);
}

// Returns when something was submitted or the pool stops; releases the mutex meanwhile. Only a thread that could have
// spun the last time without sleeping spins this time: in a container the core belongs to others.
static void wait_for_work(ThreadPool* pool, Worker* worker) {
    unsigned seen = atomic_load_explicit(&pool->num_submitted, memory_order_relaxed);
    int64_t since = now();
    if (worker->is_hurried) {
        pthread_mutex_unlock(&pool->mutex);
        spin_for_work(pool, seen, since);
        pthread_mutex_lock(&pool->mutex);
    }
    pool->num_sleeping++;
    while (atomic_load_explicit(&pool->num_submitted, memory_order_relaxed) == seen && !pool->is_stopping) {
        pthread_cond_wait(&pool->work, &pool->mutex);
    }
    pool->num_sleeping--;
    worker->is_hurried = pool->submitted_at - since < SPIN_NANOSECONDS;
}

// ------------------------------------------------------------------------------------------------------- threads

static void* worker_main(void* argument) {
    Worker* worker = argument;
    ThreadPool* pool = worker->pool;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_stopping) {
        PoolJob* job = attach(pool);
        if (job == NULL) {
            wait_for_work(pool, worker);
            continue;
        }
        pthread_mutex_unlock(&pool->mutex);
        run_job(job, worker->index);
        pthread_mutex_lock(&pool->mutex);
        detach(pool, job);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

// Signals stay with the threads of the host program: a handler must not interrupt a step.
static bool start_threads(ThreadPool* pool) {
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    for (int i = 1; i < pool->num_threads; i++) {
        Worker* worker = &pool->workers[i - 1];
        *worker = (Worker){pool, i, true};
        if (pthread_create(&pool->threads[i - 1], NULL, worker_main, worker) != 0) break;
        pool->num_started = i;
    }
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return pool->num_started == pool->num_threads - 1;
}

static void stop_threads(ThreadPool* pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->is_stopping = true;
    atomic_fetch_add_explicit(&pool->num_submitted, 1, memory_order_relaxed);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->num_started; i++) pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
}

// -------------------------------------------------------------------------------------------------------- public

ThreadPool* pool_create(int num_threads) {
    ThreadPool* pool = calloc(1, sizeof(*pool));
    if (pool == NULL) return NULL;
    pool->num_threads = num_threads;
    pool->owner = getpid();
    pool->threads = calloc((size_t)num_threads, sizeof(*pool->threads));
    pool->workers = calloc((size_t)num_threads, sizeof(*pool->workers));
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    if (pool->threads == NULL || pool->workers == NULL || !start_threads(pool)) {
        pool_destroy(pool);
        return NULL;
    }
    return pool;
}

int pool_size(const ThreadPool* pool) { return pool->num_threads; }

bool pool_is_inherited(const ThreadPool* pool) { return pool->owner != getpid(); }

void pool_submit(ThreadPool* pool, PoolJob* job) {
    divide_job(job, pool->num_threads);
    atomic_store_explicit(&job->num_helpers, 0, memory_order_relaxed);
    if (pool->num_threads == 1) return;
    pthread_mutex_lock(&pool->mutex);
    enqueue(pool, job);
    pool->submitted_at = now();
    atomic_fetch_add_explicit(&pool->num_submitted, 1, memory_order_relaxed);
    bool is_anyone_asleep = pool->num_sleeping > 0;
    pthread_mutex_unlock(&pool->mutex);
    if (is_anyone_asleep) pthread_cond_broadcast(&pool->work);
}

// Waits for a while; returns whether all helpers have left the job.
static bool spin_for_helpers(PoolJob* job) {
    int64_t since = now();
    do {
        for (int i = 0; i < PAUSES_PER_LOOK; i++) {
            if (atomic_load_explicit(&job->num_helpers, memory_order_acquire) == 0) return true;
            relax();
        }
    } while (now() - since < SPIN_NANOSECONDS);
    return false;
}

void pool_finish(ThreadPool* pool, PoolJob* job) {
    run_job(job, 0);
    if (pool->num_threads == 1) return;
    pthread_mutex_lock(&pool->mutex);
    unlink_job(pool, job);
    pthread_mutex_unlock(&pool->mutex);
    if (spin_for_helpers(job)) return;
    pthread_mutex_lock(&pool->mutex);
    pool->num_waiting++;
    while (atomic_load_explicit(&job->num_helpers, memory_order_acquire) > 0) {
        pthread_cond_wait(&pool->done, &pool->mutex);
    }
    pool->num_waiting--;
    pthread_mutex_unlock(&pool->mutex);
}

void pool_run(ThreadPool* pool, PoolTask* task, void* context, int count) {
    PoolJob job = {.task = task, .context = context, .count = count};
    pool_submit(pool, &job);
    pool_finish(pool, &job);
}

void pool_destroy(ThreadPool* pool) {
    if (pool == NULL) return;
    if (!pool_is_inherited(pool)) stop_threads(pool);
    free(pool->workers);
    free(pool->threads);
    free(pool);
}
