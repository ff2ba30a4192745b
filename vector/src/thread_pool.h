// thread_pool.h - a fixed set of threads that share out ranges of work.
//
// The caller is worker 0, so a pool of one starts no threads and does the work inside pool_finish. Idle threads sleep.
// Jobs are begun in the order they were submitted; several may be in flight.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

typedef struct ThreadPool ThreadPool;

// Does the items [begin, end) of a job. Two threads never get the same item; worker is below pool_size.
typedef void PoolTask(void* context, int begin, int end, int worker);

// Owned by the caller, who fills the first three members; it must stay in place from pool_submit until pool_finish
// returns, and may then be submitted again.
typedef struct PoolJob PoolJob;
struct PoolJob {
    PoolTask* task;
    void* context;
    int count;  // items, 0 or more
    // What follows belongs to the pool.
    int block_size, num_blocks;
    atomic_int next_block;   // the first block that nobody has claimed
    atomic_int num_helpers;  // threads of the pool inside the job
    PoolJob* following;      // in the pool's queue
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
