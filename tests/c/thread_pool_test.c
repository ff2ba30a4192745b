// thread_pool_test.c - the pool does every item once and shows the caller what it did.
//
// Counts are prime, so that blocks never come out even.
#define _POSIX_C_SOURCE 200809L
#include "thread_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

enum { MAX_ITEMS = 100003, NUM_JOBS = 5 };

static void sleep_milliseconds(int milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

static const int THREADS[] = {1, 2, 3, 7};
static const int COUNTS[] = {0, 1, 2, 7, 63, 64, 65, 127, 1223, 100003};
enum { NUM_COUNTS = sizeof(COUNTS) / sizeof(COUNTS[0]), NUM_THREADS = sizeof(THREADS) / sizeof(THREADS[0]) };

typedef struct {
    int* visits;  // [count], written without atomics: a race or a second visit shows
    int num_workers;
} Visits;

static void visit(void* context, int begin, int end, int worker) {
    Visits* visits = context;
    CHECK(begin < end && worker >= 0 && worker < visits->num_workers);
    for (int i = begin; i < end; i++) visits->visits[i]++;
}

static void test_every_item_is_done_once(ThreadPool* pool) {
    for (int i = 0; i < NUM_COUNTS; i++) {
        Visits visits = {calloc(MAX_ITEMS + 1, sizeof(int)), pool_size(pool)};
        pool_run(pool, visit, &visits, COUNTS[i]);
        for (int item = 0; item <= MAX_ITEMS; item++) CHECK(visits.visits[item] == (item < COUNTS[i]));
        free(visits.visits);
    }
}

static void test_tiny_jobs_one_after_the_other(ThreadPool* pool, int num_jobs) {
    enum { COUNT = 131 };
    int items[COUNT] = {0};
    Visits visits = {items, pool_size(pool)};
    for (int i = 0; i < num_jobs; i++) {
        pool_run(pool, visit, &visits, COUNT);
        for (int item = 0; item < COUNT; item++) CHECK(items[item] == i + 1);
    }
}

// Several jobs are in flight; each is finished, looked at, and submitted again, as a vector does with its batches.
static void test_jobs_in_flight(ThreadPool* pool, int num_rounds) {
    enum { COUNT = 257 };
    static int items[NUM_JOBS][COUNT];
    Visits visits[NUM_JOBS];
    PoolJob jobs[NUM_JOBS];
    for (int j = 0; j < NUM_JOBS; j++) {
        for (int item = 0; item < COUNT; item++) items[j][item] = 0;
        visits[j] = (Visits){items[j], pool_size(pool)};
        jobs[j] = (PoolJob){.task = visit, .context = &visits[j], .count = COUNT};
        pool_submit(pool, &jobs[j]);
    }
    for (int round = 1; round <= num_rounds; round++) {
        for (int j = 0; j < NUM_JOBS; j++) {
            int job = round % 3 ? j : NUM_JOBS - 1 - j;  // not always the oldest first
            pool_finish(pool, &jobs[job]);
            for (int item = 0; item < COUNT; item++) CHECK(items[job][item] == round);
            if (round < num_rounds) pool_submit(pool, &jobs[job]);
        }
    }
}

typedef struct {
    int* order;           // [count], when each item was done
    atomic_int num_done;  // by the only thread that works
} Order;

static void note_order(void* context, int begin, int end, int worker) {
    Order* order = context;
    CHECK(worker == 1);
    for (int i = begin; i < end; i++) order->order[i] = atomic_fetch_add(&order->num_done, 1);
}

// While the caller does something else, a thread does its own part, then the caller's from the far end.
static void test_a_thread_begins_at_its_own_part(void) {
    enum { COUNT = 1223, PART = 640 };  // half of it in whole claims
    int items[COUNT];
    Order order = {.order = items};
    ThreadPool* pool = pool_create(2);
    PoolJob job = {.task = note_order, .context = &order, .count = COUNT};
    for (int round = 0; round < 20; round++) {
        atomic_store(&order.num_done, 0);
        pool_submit(pool, &job);
        while (atomic_load(&order.num_done) < COUNT) sleep_milliseconds(1);
        pool_finish(pool, &job);
        for (int i = PART; i < COUNT; i++) CHECK(items[i] == i - PART);
        CHECK(items[0] > items[PART - 1] && items[PART - 1] > items[COUNT - 1]);
    }
    pool_destroy(pool);
}

// A thread spins for 50 microseconds at most when its work is done.
static void test_idle_threads_sleep(ThreadPool* pool) {
    test_tiny_jobs_one_after_the_other(pool, 100);
    clock_t before = clock();
    sleep_milliseconds(100);
    CHECK(clock() - before < CLOCKS_PER_SEC / 20);
}

static void test_create_and_destroy(int num_threads) {
    for (int i = 0; i < 50; i++) {
        ThreadPool* pool = pool_create(num_threads);
        CHECK(pool != NULL && pool_size(pool) == num_threads && !pool_is_inherited(pool));
        if (i % 2) test_tiny_jobs_one_after_the_other(pool, 3);
        pool_destroy(pool);
    }
    pool_destroy(NULL);
}

int main(int argc, char** argv) {
    int num_jobs = argc > 1 ? atoi(argv[1]) : 20000;
    for (int i = 0; i < NUM_THREADS; i++) {
        ThreadPool* pool = pool_create(THREADS[i]);
        CHECK(pool != NULL);
        test_every_item_is_done_once(pool);
        test_tiny_jobs_one_after_the_other(pool, num_jobs);
        test_jobs_in_flight(pool, num_jobs / NUM_JOBS);
        test_idle_threads_sleep(pool);
        pool_destroy(pool);
        test_create_and_destroy(THREADS[i]);
    }
    test_a_thread_begins_at_its_own_part();
    return 0;
}
