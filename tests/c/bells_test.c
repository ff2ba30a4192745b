// bells_test.c - what a vector and its workers hand each other is seen whole, and no ring is lost; for ThreadSanitizer.
//
// Threads stand in for the processes, which it cannot watch, and semaphores for the messages that wake a sleeper. All
// else that passes between them are plain rows, so that only the bells order what is written and read.
#define _GNU_SOURCE
#include "bells.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NUM_WORKERS = 3,
    ROW = 17,                   // numbers
    WATCH_NANOSECONDS = 20000,  // so short that workers sleep in some steps, and in others see the bell
};

typedef struct {
    Bells* bells;  // owned by main, as is all that threads share
    sem_t worker_message[NUM_WORKERS], parent_message;
    int actions[NUM_WORKERS][ROW], observations[NUM_WORKERS][ROW];  // plain
    int num_steps;
} Vector;

typedef struct {
    Vector* vector;
    int index;
} Worker;

static void fail(const char* message) {
    fprintf(stderr, "bells_test: %s\n", message);
    exit(1);
}

static void wait_for_message(sem_t* message) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    if (sem_timedwait(message, &deadline) != 0) fail("a sleeper was not woken");
}

// A message may come that its reader had no need of any more, as both sides may see each other at the same time: then
// the next sleep is short.
static void await_command(const Worker* worker, unsigned taken) {
    Bells* bells = worker->vector->bells;
    WorkerBell* bell = &bells->workers[worker->index];
    for (;;) {
        bell_wake_worker(bell);
        if (bell_watch(bells, worker->index, NUM_WORKERS, taken, WATCH_NANOSECONDS)) return;
        if (!bell_fall_asleep(bell, taken)) return;
        wait_for_message(&worker->vector->worker_message[worker->index]);
    }
}

static void* work(void* argument) {
    const Worker* worker = argument;
    Vector* vector = worker->vector;
    WorkerBell* bell = &vector->bells->workers[worker->index];
    for (int step = 0; step < vector->num_steps; step++) {
        await_command(worker, (unsigned)step);
        if (bell->asks_by_message != (step % 5 == 0)) fail("a step was taken for a message");
        bells_spread(vector->bells, worker->index, NUM_WORKERS);
        for (int i = 0; i < ROW; i++) {
            vector->observations[worker->index][i] = vector->actions[worker->index][i] + worker->index;
        }
        if (bell_answer(vector->bells, bell, step % 7 == 0)) sem_post(&vector->parent_message);
    }
    return NULL;
}

static void ask_all(Vector* vector, int step) {
    for (int index = 0; index < NUM_WORKERS; index++) {
        for (int i = 0; i < ROW; i++) vector->actions[index][i] = step + i;
        if (bell_ask(&vector->bells->workers[index], step % 5 == 0)) sem_post(&vector->worker_message[index]);
    }
}

static int hear_all(Vector* vector, int step) {
    int heard = 0;
    for (int index = 0; index < NUM_WORKERS; index++) {
        WorkerBell* bell = &vector->bells->workers[index];
        if (!bell_hear(bell)) continue;
        heard++;
        if (bell->answers_by_message != (step % 7 == 0)) fail("an answer was taken for another");
        for (int i = 0; i < ROW; i++) {
            if (vector->observations[index][i] != step + i + index) fail("a row is not that of this step");
        }
    }
    return heard;
}

static void run(Vector* vector) {
    unsigned num_heard = 0;
    for (int step = 0; step < vector->num_steps; step++) {
        ask_all(vector, step);
        for (int left = NUM_WORKERS; left > 0;) {
            int heard = hear_all(vector, step);
            num_heard += (unsigned)heard;
            left -= heard;
            if (left == 0 || heard > 0) continue;
            if (bells_fall_asleep(vector->bells, num_heard + 1)) wait_for_message(&vector->parent_message);
            bells_wake_parent(vector->bells);
        }
    }
}

int main(int argc, char** argv) {
    if (argc != 2) fail("expected the number of steps");
    static Vector vector;
    vector.num_steps = atoi(argv[1]);
    size_t size = bells_size(NUM_WORKERS);
    vector.bells = aligned_alloc(BELL_LINE, size);
    if (vector.bells == NULL) fail("out of memory");
    for (size_t i = 0; i < size; i++) ((unsigned char*)vector.bells)[i] = 0;
    sem_init(&vector.parent_message, 0, 0);
    pthread_t threads[NUM_WORKERS];
    Worker workers[NUM_WORKERS];
    for (int i = 0; i < NUM_WORKERS; i++) {
        sem_init(&vector.worker_message[i], 0, 0);
        workers[i] = (Worker){&vector, i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) fail("no thread");
    }
    run(&vector);
    for (int i = 0; i < NUM_WORKERS; i++) pthread_join(threads[i], NULL);
    free(vector.bells);
    return 0;
}
