// The module of shared_quiz.h, built by tests/ocean/test_shared.py.
#include "shared_quiz.h"

#define ENV_NAME "shared_quiz"
#define MY_SHARED
typedef Quiz Env;
typedef QuizShared Shared;
#include "puffer_binding.h"

// Fills the shared table from the keyword arguments of shared(); this one needs none.
static int my_shared(Shared* shared, PyObject* args, PyObject* kwargs) {
    quiz_fill_shared(shared);
    return 0;
}

// Fills the zeroed struct from keyword arguments, each with its range. kwarg_float and kwarg_bool exist too.
static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    return kwarg_int(kwargs, "rounds", QUIZ_MIN_ROUNDS, QUIZ_MAX_ROUNDS, &env->rounds);
}
