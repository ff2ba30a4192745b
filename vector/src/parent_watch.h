// parent_watch.h - ends a worker process when its parent is gone, whatever the worker is doing.
//
// A worker learns from its connection that the parent is gone, unless an environment hangs: in Python, or in C with the
// interpreter lock held. So a thread that needs no lock checks twice a second who the parent is. (Linux's signal at
// the parent's death is no remedy: it is sent when the thread that started the worker ends, as it may long before.)
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    pid_t parent;
    int grace_seconds;  // for the worker to see it by itself and to close its environments
} ParentWatch;

static void* parent_watch_main(void* argument) {
    ParentWatch watch = *(ParentWatch*)argument;
    free(argument);
    const struct timespec pause = {0, 500000000}, grace = {watch.grace_seconds, 0};
    while (getppid() == watch.parent) nanosleep(&pause, NULL);
    nanosleep(&grace, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

// Watches the process that is the parent now; returns false when memory or threads run out.
static inline bool parent_watch_start(int grace_seconds) {
    ParentWatch* watch = malloc(sizeof(*watch));
    if (watch == NULL) return false;
    *watch = (ParentWatch){getppid(), grace_seconds};
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);  // signals are for the threads of Python
    pthread_t thread;
    bool is_started = pthread_create(&thread, NULL, parent_watch_main, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (is_started) {
        pthread_detach(thread);
    } else {
        free(watch);
    }
    return is_started;
}
