"""The thread pool under a thin class: steps the C environments of whole batches outside the interpreter lock."""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free

from pufferlib.errors import APIUsageError


cdef extern from "puffer_vec.h":
    const char* PUFFER_VEC_CAPSULE
    const uint32_t PUFFER_VEC_VERSION
    ctypedef struct PufferVec:
        uint32_t version
        int num_envs
        int is_busy
        int is_closed
        void (*step_range)(PufferVec* vec, int begin, int end) noexcept nogil


cdef extern from "thread_pool.h" nogil:
    ctypedef struct ThreadPool
    ctypedef struct PoolJob:
        void (*task)(void* context, int begin, int end, int worker) noexcept nogil
        void* context
        int count
    ThreadPool* pool_create(int num_threads)
    bint pool_is_inherited(const ThreadPool* pool)
    void pool_submit(ThreadPool* pool, PoolJob* job)
    void pool_finish(ThreadPool* pool, PoolJob* job)
    void pool_destroy(ThreadPool* pool)


cdef extern from "parent_watch.h" nogil:
    bint parent_watch_start(int grace_seconds)


cdef extern from "bells.h" nogil:
    ctypedef struct WorkerBell:
        bint asks_by_message
        bint answers_by_message
    ctypedef struct Bells:
        WorkerBell workers[1]
    size_t bells_size(int num_workers)
    bint bell_ask(WorkerBell* bell, bint by_message)
    bint bells_fall_asleep(Bells* bells, unsigned wake_at)
    bint bell_watch(Bells* bells, int index, int num_workers, unsigned taken, int64_t nanoseconds)
    bint bell_fall_asleep(WorkerBell* bell, unsigned taken)
    bint bell_answer(Bells* bells, WorkerBell* bell, bint by_message)
    void bells_spread(Bells* bells, int index, int num_workers)
    void bells_wake_parent(Bells* bells)
    bint bell_hear(WorkerBell* bell)
    void bell_wake_worker(WorkerBell* bell)


cdef struct Batch:
    PoolJob job
    bint is_running
    bint is_attended  # a thread is inside start or finish, without the interpreter lock
    int num_vecs
    PufferVec** vecs  # owned array of borrowed vecs; the capsules keep them alive


cdef void step_block(void* context, int begin, int end, int worker) noexcept nogil:
    """Steps the environments [begin, end) of a batch, counted over its vecs one after the other."""
    cdef Batch* batch = <Batch*>context
    cdef PufferVec* vec
    cdef int i, first = 0, low, high
    for i in range(batch.num_vecs):
        vec = batch.vecs[i]
        low = begin - first if begin > first else 0
        high = end - first if end - first < vec.num_envs else vec.num_envs
        if low < high:
            vec.step_range(vec, low, high)
        first += vec.num_envs


cdef PufferVec* vec_from(object capsule) except NULL:
    if not PyCapsule_IsValid(capsule, PUFFER_VEC_CAPSULE):
        raise APIUsageError(
            f"Native steps environments whose handle is a {PUFFER_VEC_CAPSULE.decode()!r} capsule, "
            f"got {type(capsule).__name__}; use the Serial or Multiprocessing backend"
        )
    cdef PufferVec* vec = <PufferVec*>PyCapsule_GetPointer(capsule, PUFFER_VEC_CAPSULE)
    if vec.version != PUFFER_VEC_VERSION:
        raise APIUsageError(
            f"the environment was built for vec interface {vec.version}, this is {PUFFER_VEC_VERSION}; "
            "rebuild with `python setup.py build_ext --inplace`"
        )
    return vec


def end_with_parent(int grace_seconds):
    """Has this process killed `grace_seconds` after its parent is gone, even if it hangs with the interpreter lock held.

    Raises:
        MemoryError: if memory or threads run out.
    """
    if not parent_watch_start(grace_seconds):
        raise MemoryError("cannot start a thread; ask for fewer workers")


def bells_bytes(int num_workers):
    """The shared memory that the bells of so many workers take."""
    return bells_size(num_workers)


cdef Bells* bells_in(unsigned char[::1] memory, size_t offset, int num_workers) except NULL:
    if offset + bells_size(num_workers) > <size_t>memory.shape[0]:
        raise ValueError(f"{num_workers} bells at {offset} need {bells_size(num_workers)} of {memory.shape[0]} bytes")
    return <Bells*>(&memory[0] + offset)


cdef class ParentBells:
    """The parent's side of the bells in zeroed shared memory: asks workers, sees who has answered.

    Args:
        memory: shared with the workers, kept alive.
        offset: of the bells, a multiple of 128.
        num_workers: that share them.
    """

    cdef Bells* bells
    cdef unsigned char[::1] memory
    cdef int num_workers
    cdef unsigned num_heard

    def __cinit__(self, unsigned char[::1] memory, size_t offset, int num_workers):
        self.bells = bells_in(memory, offset, num_workers)
        self.memory = memory
        self.num_workers = num_workers

    def ask(self, int worker, bint by_message):
        """Asks for what the message in the connection says, or for a step; whether a message must wake the worker."""
        return bell_ask(&self.bells.workers[worker], by_message)

    def answers(self):
        """The workers that have answered since the last call, each with whether its answer is a message."""
        cdef int worker
        cdef list answers = []
        for worker in range(self.num_workers):
            if bell_hear(&self.bells.workers[worker]):
                self.num_heard += 1
                answers.append((worker, self.bells.workers[worker].answers_by_message))
        return answers

    def fall_asleep(self, unsigned least):
        """Announces a sleep until `least` more workers have answered than `answers` has told of; False if they have."""
        return bells_fall_asleep(self.bells, self.num_heard + least)

    def wake_up(self):
        """Ends the sleep."""
        bells_wake_parent(self.bells)


cdef class WorkerBells:
    """A worker's side of the bells; see ParentBells.

    Args:
        memory: shared with the parent, kept alive.
        offset: of the bells.
        num_workers: that share them.
        index: of this worker.
    """

    cdef Bells* bells
    cdef WorkerBell* bell
    cdef unsigned char[::1] memory
    cdef int num_workers, index
    cdef unsigned num_taken

    def __cinit__(self, unsigned char[::1] memory, size_t offset, int num_workers, int index):
        self.bells = bells_in(memory, offset, num_workers)
        self.bell = &self.bells.workers[index]
        self.memory = memory
        self.num_workers = num_workers
        self.index = index

    def watch(self, double seconds):
        """Looks out for a command, at most for `seconds`; when there is none, announces a sleep and returns False."""
        cdef bint is_asked
        bell_wake_worker(self.bell)
        with nogil:
            is_asked = bell_watch(self.bells, self.index, self.num_workers, self.num_taken, <int64_t>(seconds * 1e9))
        if not is_asked and bell_fall_asleep(self.bell, self.num_taken):
            return False
        self.num_taken += 1
        return True

    def is_message(self):
        """Whether the command that `watch` saw is in the connection; else it is a step."""
        return self.bell.asks_by_message

    def answer(self, bint by_message):
        """Says that the answer is given, by a message before this call if it is not empty.

        Returns:
            Whether a message must wake the parent.
        """
        return bell_answer(self.bells, self.bell, by_message)

    def spread(self):
        """Moves to another core if another worker's last step began on this one; a hint to the kernel, on Linux."""
        bells_spread(self.bells, self.index, self.num_workers)


@cython.no_gc  # it refers to capsules alone, so it is in no cycle and is never cleared before __dealloc__
cdef class Stepper:
    """Steps batches of C environments on a pool of threads.

    A step that runs holds the environments busy; their own methods refuse to work until `finish`. One thread at a time
    may be inside a call for a batch, and none while it is closed; another one is refused.

    Args:
        batches: the vec handles of every batch, at least one each.
        num_threads: threads, the caller included; one starts none.

    Raises:
        APIUsageError: if a handle is of another kind or version.
        MemoryError: if memory or threads run out.
    """

    cdef ThreadPool* pool
    cdef Batch* batches
    cdef int num_batches
    cdef object capsules

    def __cinit__(self, list batches, int num_threads):
        cdef int i
        self.capsules = [list(capsules) for capsules in batches]
        self.batches = <Batch*>calloc(max(len(batches), 1), sizeof(Batch))
        if self.batches is NULL:
            raise MemoryError("no memory for the batches")
        self.num_batches = len(batches)
        for i in range(self.num_batches):
            self.fill(&self.batches[i], self.capsules[i])
        self.pool = pool_create(num_threads)
        if self.pool is NULL:
            raise MemoryError(f"cannot start {num_threads - 1} threads; ask for fewer workers")

    cdef int fill(self, Batch* batch, list capsules) except -1:
        cdef int i
        batch.vecs = <PufferVec**>calloc(max(len(capsules), 1), sizeof(PufferVec*))
        if batch.vecs is NULL:
            raise MemoryError("no memory for a batch")
        batch.num_vecs = len(capsules)
        for i in range(batch.num_vecs):
            batch.vecs[i] = vec_from(capsules[i])
            batch.job.count += batch.vecs[i].num_envs
        batch.job.task = step_block
        batch.job.context = batch
        return 0

    def __dealloc__(self):
        cdef int i
        self.finish_all(self.pool)
        pool_destroy(self.pool)
        if self.batches is not NULL:
            for i in range(self.num_batches):
                free(self.batches[i].vecs)
            free(self.batches)

    cdef void finish_all(self, ThreadPool* pool) noexcept:
        cdef int i
        if pool is NULL or pool_is_inherited(pool):
            return
        for i in range(self.num_batches):
            self.wait(pool, &self.batches[i])

    cdef void wait(self, ThreadPool* pool, Batch* batch) noexcept:
        cdef int i
        if not batch.is_running:
            return
        batch.is_attended = True
        with nogil:
            pool_finish(pool, &batch.job)
        batch.is_attended = False
        batch.is_running = False
        for i in range(batch.num_vecs):
            batch.vecs[i].is_busy = 0

    cdef int require_unattended(self, Batch* batch) except -1:
        if batch.is_attended:
            raise APIUsageError("another thread is stepping a batch; wait until it is done")
        return 0

    cdef Batch* batch_at(self, int index) except NULL:
        if self.pool is NULL:
            raise APIUsageError("the vector is closed; make a new vector")
        if index < 0 or index >= self.num_batches:
            raise IndexError(f"batch must be from 0 to {self.num_batches - 1}, got {index}")
        self.require_unattended(&self.batches[index])
        return &self.batches[index]

    def start(self, int index):
        """Starts one step of a batch and returns at once.

        Raises:
            APIUsageError: if one of its environments is closed or being stepped.
        """
        cdef Batch* batch = self.batch_at(index)
        cdef int i
        for i in range(batch.num_vecs):
            if batch.vecs[i].is_closed or batch.vecs[i].is_busy:
                raise APIUsageError(
                    "an environment of the batch is " + ("closed; make a new vector" if batch.vecs[i].is_closed
                                                         else "being stepped elsewhere; wait for it first")
                )
        for i in range(batch.num_vecs):
            batch.vecs[i].is_busy = 1
        batch.is_running = batch.is_attended = True
        with nogil:
            pool_submit(self.pool, &batch.job)
        batch.is_attended = False

    def finish(self, int index):
        """Helps with the step of a batch and returns when it is done; at once when none runs.

        Raises:
            APIUsageError: if another thread does so already.
        """
        cdef Batch* batch = self.batch_at(index)
        self.wait(self.pool, batch)

    def close(self):
        """Finishes what runs and joins the threads; calling it twice is harmless.

        Raises:
            APIUsageError: if another thread is inside a call.
        """
        cdef ThreadPool* pool = self.pool
        cdef int i
        for i in range(self.num_batches):
            self.require_unattended(&self.batches[i])
        self.pool = NULL  # nobody comes in any more
        self.finish_all(pool)
        with nogil:
            pool_destroy(pool)
