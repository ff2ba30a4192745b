// fuzz_binding.c - libFuzzer's target of one environment: its binding.c in a program that embeds Python, everything
// under the sanitizers. tests/fuzz/fuzzers.py compiles it with -DBINDING="path of binding.c" and the header that says
// what the environment takes.
//
//     fuzz_squared --play|--calls [corpus folder] [libFuzzer's flags] [--goal=10000000]
//
// --play plays environments (fuzz_play.h), --calls calls the module's functions with anything (fuzz_calls.h); the goal
// is a number of environment steps or of calls, after which it ends by itself.
#include BINDING

#include <signal.h>

#include "fuzz_calls.h"
#include "fuzz_play.h"

static void (*take_input)(Input input);
static const uint64_t* progress;  // num_steps or num_calls
static uint64_t goal = UINT64_MAX;

static void tell_numbers(void) {
    static bool was_told;
    if (was_told) return;
    was_told = true;
    fprintf(stderr, "fuzz: %llu steps, %llu calls, %llu served\n", (unsigned long long)num_steps,
            (unsigned long long)num_calls, (unsigned long long)num_served);
}

static void start_python(void) {
    PyPreConfig early;
    PyPreConfig_InitIsolatedConfig(&early);
    early.allocator = PYMEM_ALLOCATOR_MALLOC;  // so that AddressSanitizer sees every object
    PyConfig config;
    if (PyImport_AppendInittab("binding", PyInit_binding) < 0 || PyStatus_Exception(Py_PreInitialize(&early))) {
        broken("Python does not start");
    }
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    PyStatus status = PyConfig_SetBytesString(&config, &config.home, PYTHON_HOME);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);
    PyConfig_Clear(&config);
}

int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

int LLVMFuzzerInitialize(int* argc, char*** argv) {
    // libFuzzer leaves alone what begins with two dashes, and hands it on to processes that it starts to merge corpora.
    bool is_calls = false, is_play = false;
    for (int i = 1; i < *argc; i++) {
        const char* word = (*argv)[i];
        is_calls = is_calls || strcmp(word, "--calls") == 0;
        is_play = is_play || strcmp(word, "--play") == 0;
        if (strncmp(word, "--goal=", 7) == 0) goal = strtoull(word + 7, NULL, 10);
    }
    if (is_calls == is_play) broken("expected one of --play and --calls");
    take_input = is_calls ? call_input : play_input;
    progress = is_calls ? &num_calls : &num_steps;
    start_python();
    PyObject* module = served(PyImport_ImportModule("binding"), "the module is not imported");
    shared_of_env = served(shared_new(NULL), "no shared state");
    calls_open(module);
    atexit(tell_numbers);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    take_input((Input){bytes, size});
    if (PyErr_Occurred() != NULL) broken("an exception was left behind");
    if (*progress >= goal) {
        tell_numbers();
        raise(SIGUSR1);  // libFuzzer ends with its statistics
    }
    return 0;
}
