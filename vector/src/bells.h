// bells.h - how a vector and its worker processes announce work to each other in shared memory.
//
// A side that is awake polls a counter, the bell, without a system call. A side that sleeps in poll() on its connection
// has announced that, and the other one wakes it by a message. No wake-up is lost: a side announces its sleep and then
// reads the counter again, the other one increments the counter and then reads the announcement. All four accesses are
// sequentially consistent, so at least one side sees the other. An exchange takes the announcement back, so that there
// is one waking message. Rows, actions and messages written before an increment are visible to the side that saw it.
#pragma once

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    BELL_LINE = 128,  // bytes: two cache lines, which processors fetch in pairs
};

typedef struct {
    atomic_uint asked;        // commands so far
    atomic_uint answered;     // answers so far
    unsigned heard;           // of these by the parent, which alone looks here
    atomic_bool is_asleep;    // the worker
    bool asks_by_message;     // the last command is in the connection, else it is a step
    bool answers_by_message;  // the last answer is in the connection, else it is empty
    atomic_int core;          // on which the worker began its last step, counted from 1; 0 while it is unknown
} __attribute__((aligned(BELL_LINE))) WorkerBell;

typedef struct {
    atomic_uint answered;   // answers of all workers so far
    atomic_uint wake_at;    // so many
    atomic_bool is_asleep;  // the parent
    atomic_int core;        // on which it fell asleep, as for workers
} __attribute__((aligned(BELL_LINE))) ParentBell;

typedef struct {
    ParentBell parent;
    WorkerBell workers[];
} Bells;

static inline size_t bells_size(int num_workers) { return sizeof(Bells) + (size_t)num_workers * sizeof(WorkerBell); }

static inline int64_t bell_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// The core that the caller runs on, counted from 1; 0 where that is not known.
static inline int bell_core(void) {
#ifdef __linux__
    return sched_getcpu() + 1;
#else
    return 0;
#endif
}

// ------------------------------------------------------------------------------------------------------ the parent

// Asks a worker for something; returns whether it sleeps, so that a message must wake it.
static inline bool bell_ask(WorkerBell* bell, bool by_message) {
    bell->asks_by_message = by_message;
    atomic_fetch_add(&bell->asked, 1);
    return atomic_load(&bell->is_asleep) && atomic_exchange(&bell->is_asleep, false);
}

// Announces that the parent sleeps until `wake_at` answers were given in all; false when they were.
static inline bool bells_fall_asleep(Bells* bells, unsigned wake_at) {
    atomic_store_explicit(&bells->parent.core, bell_core(), memory_order_relaxed);
    atomic_store(&bells->parent.wake_at, wake_at);
    atomic_store(&bells->parent.is_asleep, true);
    if ((int)(atomic_load(&bells->parent.answered) - wake_at) < 0) return true;
    atomic_store(&bells->parent.is_asleep, false);
    return false;
}

static inline void bells_wake_parent(Bells* bells) { atomic_store(&bells->parent.is_asleep, false); }

// Whether a worker has answered since the last call.
static inline bool bell_hear(WorkerBell* bell) {
    if (atomic_load_explicit(&bell->answered, memory_order_acquire) == bell->heard) return false;
    bell->heard++;
    return true;
}

// ------------------------------------------------------------------------------------------------------ the workers

static inline void bell_wake_worker(WorkerBell* bell) { atomic_store(&bell->is_asleep, false); }

// Whether neither the parent fell asleep on the caller's core nor another worker began its last step there; where cores
// are not known they count as the caller's alone.
static inline bool bells_alone(Bells* bells, int index, int num_workers) {
    int core = bell_core();
    if (core == 0) return true;
    if (core == atomic_load_explicit(&bells->parent.core, memory_order_relaxed)) return false;
    for (int i = 0; i < num_workers; i++) {
        if (i != index && core == atomic_load_explicit(&bells->workers[i].core, memory_order_relaxed)) return false;
    }
    return true;
}

// Polls for the next command, at most so long, and yields the core meanwhile. It does not poll on a core that another
// process of the vector uses: a worker that sleeps frees the core at once, but a kernel that schedules by groups, as
// Linux does by sessions, gives a yielded core only to processes of the same group.
static inline bool bell_watch(Bells* bells, int index, int num_workers, unsigned taken, int64_t nanoseconds) {
    WorkerBell* bell = &bells->workers[index];
    int64_t deadline = bells_alone(bells, index, num_workers) ? bell_now() + nanoseconds : 0;
    while (atomic_load_explicit(&bell->asked, memory_order_acquire) == taken) {
        if (bell_now() >= deadline) return false;
        sched_yield();
    }
    return true;
}

// Announces that the worker sleeps; false when it was asked before that.
static inline bool bell_fall_asleep(WorkerBell* bell, unsigned taken) {
    atomic_store(&bell->is_asleep, true);
    if (atomic_load(&bell->asked) == taken) return true;
    atomic_store(&bell->is_asleep, false);
    return false;
}

// Says that the answer is given; returns whether the parent sleeps and waits for no more, so that a message must wake
// it.
static inline bool bell_answer(Bells* bells, WorkerBell* bell, bool by_message) {
    bell->answers_by_message = by_message;
    atomic_fetch_add(&bell->answered, 1);
    unsigned answered = atomic_fetch_add(&bells->parent.answered, 1) + 1;
    if (!atomic_load(&bells->parent.is_asleep)) return false;
    if ((int)(answered - atomic_load(&bells->parent.wake_at)) < 0) return false;
    return atomic_exchange(&bells->parent.is_asleep, false);
}

// Moves the calling worker to another core when a neighbour's last step began on this one and there is a core where
// none did. A kernel tends to wake all workers of a parent on one core and to leave them there, where they take turns.
// The worker stays free to run anywhere: the kernel may move it again at once.
static inline void bells_spread(Bells* bells, int index, int num_workers) {
#ifdef __linux__
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    cpu_set_t taken;
    CPU_ZERO(&taken);
    for (int i = 0; i < num_workers; i++) {
        int core = atomic_load(&bells->workers[i].core) - 1;
        if (i != index && core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &taken);
    }
    atomic_store(&bells->workers[index].core, here + 1);
    cpu_set_t allowed;
    if (!CPU_ISSET(here, &taken) || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    for (int i = 1; i < CPU_SETSIZE; i++) {
        int core = (here + i) % CPU_SETSIZE;
        if (!CPU_ISSET(core, &allowed) || CPU_ISSET(core, &taken)) continue;
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(core, &only);
        atomic_store(&bells->workers[index].core, core + 1);
        if (sched_setaffinity(0, sizeof(only), &only) == 0) sched_setaffinity(0, sizeof(allowed), &allowed);
        return;
    }
#else
    (void)bells, (void)index, (void)num_workers;
#endif
}
