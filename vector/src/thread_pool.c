// thread_pool.c - see thread_pool.h.
//
// Memory order. pool_submit links the job into the queue under the mutex, and a thread attaches to it under the same
// mutex, so all that was written before pool_submit (the job, the actions) is visible to the thread. Blocks are claimed
// by a relaxed fetch_add: an atomic read-modify-write gives each number out once, and no data travels through it. A
// thread leaves a job by a release decrement of num_helpers, after its last block; pool_finish returns once it has read
// zero with acquire, which makes the blocks of every helper visible to the caller. By then the caller has itself
// claimed past the last block and has unlinked the job under the mutex, so nobody attaches any more, zero is final, and
// since a helper does not touch the job after the decrement the caller may free it. The counters that spinning threads
// watch are only hints: whoever saw one takes the mutex before acting on it.
#define _POSIX_C_SOURCE 200809L
#include "thread_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BLOCKS_PER_THREAD = 4,  // so that one slow block does not leave the other threads idle
    BLOCK_ALIGNMENT = 64,   // items: neighbours in a byte array then share no cache line
    SPINS = 256,            // pauses before sleeping, some 10 microseconds: in a container the core belongs to others
};

typedef struct {
    ThreadPool* pool;  // borrowed
    int index;
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
    atomic_uint num_submitted;  // changed under the mutex, watched without it
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

// Long ranges are cut on cache lines; short ones, where an item is likely to be heavy, into a block per thread.
static int choose_block_size(int count, int num_threads) {
    if (count / BLOCK_ALIGNMENT < num_threads) return count / num_threads + (count % num_threads > 0);
    int size = count / (BLOCKS_PER_THREAD * num_threads);
    return (size / BLOCK_ALIGNMENT + (size % BLOCK_ALIGNMENT > 0)) * BLOCK_ALIGNMENT;
}

static void run_blocks(PoolJob* job, int worker) {
    // The load keeps the counter from growing without end when a job is looked at again and again.
    while (atomic_load_explicit(&job->next_block, memory_order_relaxed) < job->num_blocks) {
        int block = atomic_fetch_add_explicit(&job->next_block, 1, memory_order_relaxed);
        if (block >= job->num_blocks) return;
        int begin = block * job->block_size;
        int size = job->count - begin < job->block_size ? job->count - begin : job->block_size;
        job->task(job->context, begin, begin + size, worker);
    }
}

// ---------------------------------------------------------------------------------- the queue; the mutex is held

static bool has_unclaimed_blocks(PoolJob* job) {
    return atomic_load_explicit(&job->next_block, memory_order_relaxed) < job->num_blocks;
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
    while (pool->queue != NULL && !has_unclaimed_blocks(pool->queue)) pool->queue = pool->queue->following;
    PoolJob* job = pool->queue;
    if (job != NULL) atomic_fetch_add_explicit(&job->num_helpers, 1, memory_order_relaxed);
    return job;
}

static void detach(ThreadPool* pool, PoolJob* job) {
    int others = atomic_fetch_sub_explicit(&job->num_helpers, 1, memory_order_release) - 1;
    if (others == 0 && pool->num_waiting > 0) pthread_cond_broadcast(&pool->done);
}

// Returns when something was submitted or the pool stops; lets go of the mutex meanwhile.
static void wait_for_work(ThreadPool* pool) {
    unsigned seen = atomic_load_explicit(&pool->num_submitted, memory_order_relaxed);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool->num_submitted, memory_order_relaxed) == seen; i++) relax();
    pthread_mutex_lock(&pool->mutex);
    pool->num_sleeping++;
    while (atomic_load_explicit(&pool->num_submitted, memory_order_relaxed) == seen && !pool->is_stopping) {
        pthread_cond_wait(&pool->work, &pool->mutex);
    }
    pool->num_sleeping--;
}

// ------------------------------------------------------------------------------------------------------- threads

static void* worker_main(void* argument) {
    Worker* worker = argument;
    ThreadPool* pool = worker->pool;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->is_stopping) {
        PoolJob* job = attach(pool);
        if (job == NULL) {
            wait_for_work(pool);
            continue;
        }
        pthread_mutex_unlock(&pool->mutex);
        run_blocks(job, worker->index);
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
        *worker = (Worker){pool, i};
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
    job->block_size = choose_block_size(job->count, pool->num_threads);
    job->num_blocks = job->count > 0 ? (job->count - 1) / job->block_size + 1 : 0;
    atomic_store_explicit(&job->next_block, 0, memory_order_relaxed);
    atomic_store_explicit(&job->num_helpers, 0, memory_order_relaxed);
    if (pool->num_threads == 1) return;
    pthread_mutex_lock(&pool->mutex);
    enqueue(pool, job);
    atomic_fetch_add_explicit(&pool->num_submitted, 1, memory_order_relaxed);
    bool is_anyone_asleep = pool->num_sleeping > 0;
    pthread_mutex_unlock(&pool->mutex);
    if (is_anyone_asleep) pthread_cond_broadcast(&pool->work);
}

void pool_finish(ThreadPool* pool, PoolJob* job) {
    run_blocks(job, 0);
    if (pool->num_threads == 1) return;
    pthread_mutex_lock(&pool->mutex);
    unlink_job(pool, job);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&job->num_helpers, memory_order_acquire) == 0) return;
        relax();
    }
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
