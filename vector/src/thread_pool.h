// thread_pool.h - a fixed set of threads that share out ranges of work.
//
// The caller is worker 0, so a pool of one starts no threads and does the work inside pool_finish. Idle threads sleep.
// Jobs are begun in the order they were submitted; several may be in flight. Every worker begins at its own part of a
// job, so that a job that is submitted again and again finds its memory in the caches of the cores that last worked on
// it; a worker that has finished its part takes items from the far ends of the others.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ThreadPool ThreadPool;

// Does the items [begin, end) of a job. Two threads never get the same item; worker is below pool_size.
typedef void PoolTask(void* context, int begin, int end, int worker);

enum { POOL_MAX_PARTS = 64 };  // of a job; with more threads, some share a part

typedef struct {
    _Atomic uint64_t unclaimed;  // items not claimed yet: begin in the low 32 bits, end in the high ones
    char padding[56];            // no two parts share a cache line
} PoolPart;

// Owned by the caller, who fills the first three members; it must stay in place from pool_submit until pool_finish
// returns, and may then be submitted again.
typedef struct PoolJob PoolJob;
struct PoolJob {
    PoolTask* task;
    void* context;
    int count;  // items, 0 or more
    // What follows belongs to the pool.
    int num_parts, alignment;
    atomic_int num_helpers;  // threads of the pool inside the job
    PoolJob* following;      // in the pool's queue
    PoolPart parts[POOL_MAX_PARTS];
};

// Starts num_threads - 1 threads; num_threads is at least 1. NULL when memory or threads run out.
ThreadPool* pool_create(int num_threads);

int pool_size(const ThreadPool* pool);

// Whether this process is a child made by fork, where the threads do not exist and a job would never end.
bool pool_is_inherited(const ThreadPool* pool);

// Hands the job to the threads and returns at once. The pool must not be inherited.
void pool_submit(ThreadPool* pool, PoolJob* job);

// Helps with the job and returns when all of [0, count) is done and its results are visible here.
void pool_finish(ThreadPool* pool, PoolJob* job);

// Submits one job and finishes it.
void pool_run(ThreadPool* pool, PoolTask* task, void* context, int count);

// Joins the threads; every job must be finished, NULL is allowed. An inherited pool only frees its memory.
void pool_destroy(ThreadPool* pool);
