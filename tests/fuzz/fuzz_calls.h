// fuzz_calls.h - calls the functions of a binding in any order with anything: handles in every state, arrays that fit
// and that do not, snapshots whole and damaged, and an object that closes what it finds while its arguments are read.
//
// A call is served, or refused in a sentence; what the sanitizers see is the rest.
#pragma once

#include "fuzz_python.h"

enum { NUM_THINGS = 32, NARROW = 2 * NUM_VIEWS, FIRST_FREE = NARROW + 4, MOST_CALLS = 100, MOST_ARGUMENTS = 9 };

static uint64_t num_calls, num_served;  // in all inputs

static PyObject* functions[64];  // held for the life of the process, as are the oddities
static int num_functions;
static PyObject* oddities[16];
static int num_oddities;

// What a call may get, held: arrays for one environment, for two, two of one column, the shared state, what was
// returned.
static PyObject* things[NUM_THINGS];

// Closes whatever can be closed, in the midst of another call.
static PyObject* meddle(PyObject* self, PyObject* nothing) {
    for (int i = FIRST_FREE; i < NUM_THINGS; i++) {
        Py_XDECREF(things[i] ? py_vec_close(NULL, things[i]) : NULL);
        PyErr_Clear();
        Py_XDECREF(things[i] ? env_close(NULL, things[i]) : NULL);
        PyErr_Clear();
        if (i % 4 == 0) Py_CLEAR(things[i]);
    }
    return PyLong_FromLong(1);
}

static void add_oddity(PyObject* object) { oddities[num_oddities++] = served(object, "no oddity"); }

// An object whose conversion to any number is `meddle`.
static PyObject* meddler(void) {
    static PyMethodDef method = {"meddle", meddle, METH_NOARGS, NULL};
    PyObject *function = PyCFunction_New(&method, NULL), *names = Py_BuildValue("{s:O}", "meddle", function);
    PyObject* builtins = PyEval_GetBuiltins();
    PyDict_SetItemString(names, "__builtins__", builtins);
    PyObject* made = PyRun_String(
        "type('Meddler', (), {name: lambda self: meddle() for name in ('__index__', '__int__')} | "
        "{'__float__': lambda self: float(meddle()), 'dtype': property(lambda self: meddle())})()",
        Py_eval_input, names, names);
    Py_DECREF(function);
    Py_DECREF(names);
    return made;
}

static void other_step_range(PufferVec* vec, int begin, int end) {}
static PufferVec vec_of_another = {PUFFER_VEC_VERSION, 1, 0, 0, other_step_range};

static void calls_open(PyObject* module) {
    for (const PyMethodDef* method = METHODS; method->ml_name != NULL; method++) {
        if (strcmp(method->ml_name, "env_render") == 0) continue;  // Python's side of it is not here
        functions[num_functions++] = served(PyObject_GetAttrString(module, method->ml_name), "a function is missing");
    }
    add_oddity(Py_NewRef(Py_None));
    add_oddity(Py_NewRef(Py_True));
    add_oddity(PyLong_FromLong(-1));
    add_oddity(PyLong_FromLong(1 << 24));
    add_oddity(PyLong_FromUnsignedLongLong(UINT64_MAX));
    add_oddity(PyFloat_FromDouble(NAN));
    add_oddity(PyUnicode_FromString("text"));
    add_oddity(PyBytes_FromStringAndSize("PUFSNAP\0", 8));
    add_oddity(PyTuple_New(0));
    add_oddity(Py_NewRef((PyObject*)&PyLong_Type));
    add_oddity(PyCapsule_New(&vec_of_another, PUFFER_VEC_CAPSULE, NULL));
    add_oddity(PyCapsule_New(&vec_of_another, "datetime.datetime_CAPI", NULL));
    add_oddity(meddler());
}

// ------------------------------------------------------------------------------------------------------ one argument

static PyObject* any_thing(Input* input) {
    uint32_t drawn = take_byte(input);
    if (drawn < 192) return Py_NewRef(things[drawn % NUM_THINGS] ? things[drawn % NUM_THINGS] : Py_None);
    return Py_NewRef(oddities[drawn % (uint32_t)num_oddities]);
}

static PyObject* free_thing(Input* input) {
    PyObject* thing = things[FIRST_FREE + take_byte(input) % (NUM_THINGS - FIRST_FREE)];
    return Py_NewRef(thing ? thing : Py_None);
}

static PyObject* small_number(Input* input) { return PyLong_FromUnsignedLong(take_byte(input) % 4); }

// Bytes of a snapshot that was taken before, now and then with another byte somewhere, sealed or not.
static PyObject* snapshot_thing(Input* input) {
    PyObject* bytes = NULL;
    uint32_t first = take_byte(input), drawn = take_byte(input);
    for (uint32_t i = 0; i < NUM_THINGS - FIRST_FREE && bytes == NULL; i++) {
        PyObject* thing = things[FIRST_FREE + (first + i) % (NUM_THINGS - FIRST_FREE)];
        bytes = thing != NULL && PyBytes_Check(thing) ? thing : NULL;
    }
    if (bytes == NULL) return Py_NewRef(Py_None);
    if (drawn < 128) return Py_NewRef(bytes);
    PyObject* changed = PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
    if (PyBytes_GET_SIZE(bytes) > (Py_ssize_t)sizeof(SnapshotHeader)) {
        char* at = PyBytes_AS_STRING(changed) + take_short(input) % (uint32_t)PyBytes_GET_SIZE(bytes);
        *at = (char)take_byte(input);
        if (drawn >= 160) {
            SnapshotHeader header;
            memcpy(&header, PyBytes_AS_STRING(changed), sizeof(header));
            header.checksum = snapshot_checksum(PyBytes_AS_STRING(changed) + sizeof(header),
                                                PyBytes_GET_SIZE(changed) - (Py_ssize_t)sizeof(header));
            memcpy(PyBytes_AS_STRING(changed), &header, sizeof(header));
        }
    }
    return changed;
}

// What a letter of a call's signature stands for: a an array, h a handle, n a number, s a snapshot, f a final array, w
// one bool for each environment.
static PyObject* sound_argument(char letter, int index, bool of_two, Input* input) {
    if (letter == 'a' && index == 0 && take_byte(input) >= 224) return Py_NewRef(things[NARROW + of_two]);
    if (letter == 'a') return Py_NewRef(things[(of_two ? NUM_VIEWS : 0) + index]);
    if (letter == 'f') return Py_NewRef(take_byte(input) % 4 ? things[NUM_VIEWS + FINAL] : Py_None);
    if (letter == 'h') return free_thing(input);
    if (letter == 's') return snapshot_thing(input);
    if (letter == 'w') return PyBytes_FromStringAndSize("\1\0\1", 1 + take_byte(input) % 3);
    return small_number(input);
}

// ---------------------------------------------------------------------------------------------------------- one call

typedef struct {
    const char *name, *signature;
} Sound;

#ifdef ENV_ACTION_MASKS
#define MASK_ARRAY "a"
#else
#define MASK_ARRAY ""
#endif
#ifdef ENV_TURNS
#define ARRAY_LETTERS "aaaaa" MASK_ARRAY "a"
#else
#define ARRAY_LETTERS "aaaaa" MASK_ARRAY
#endif

static const Sound SOUND[] = {
    {"shared", ""},
    {"env_init", ARRAY_LETTERS "n"},
    {"env_reset", "hn"},
    {"env_step", "h"},
    {"env_state", "h"},
    {"env_get", "h"},
    {"env_put", "hs"},
    {"env_close", "h"},
    {"vectorize", "hh"},
    {"vec_init", ARRAY_LETTERS "nn"},
    {"vec_reset", "hn"},
    {"vec_keep_final", "hf"},
    {"vec_step", "h"},
    {"vec_step_where", "hw"},
    {"vec_log", "h"},
    {"vec_snapshot", "h"},
    {"vec_restore", "hs"},
    {"vec_structs", "h"},
    {"vec_put_structs", "hs"},
    {"vec_shared", "h"},
    {"vec_env", "hn"},
    {"vec_close", "h"},
};

static const char* signature_of(const char* name) {
    for (size_t i = 0; i < sizeof(SOUND) / sizeof(*SOUND); i++) {
        if (strcmp(SOUND[i].name, name) == 0) return SOUND[i].signature;
    }
    broken("a function of the module has no signature in fuzz_calls.h");
    return "";
}

static PyObject* draw_arguments(const char* signature, uint32_t manner, Input* input) {
    bool is_sound = manner & 3, is_init = strchr(signature, 'a') != NULL;
    size_t count = is_sound ? strlen(signature) : take_byte(input) % MOST_ARGUMENTS;
    bool of_two = strcmp(signature, "aaaaann") == 0;
    PyObject* args = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        bool is_odd = !is_sound || (manner & 4 && take_byte(input) % 4 == 0);
        PyObject* one = is_odd ? any_thing(input) : sound_argument(signature[i], (int)i, of_two, input);
        if (!is_odd && is_init && of_two && i == 5) Py_SETREF(one, PyLong_FromLong(2));
        PyTuple_SET_ITEM(args, (Py_ssize_t)i, one);
    }
    return args;
}

// A table may take milliseconds to fill, and so is made now and then.
#ifdef MY_SHARED
enum { has_table = true };
#else
enum { has_table = false };
#endif

static PyObject* draw_call_keywords(const char* name, uint32_t manner, Input* input) {
    bool takes_env = strstr(name, "init") != NULL, is_sound;
    if (!takes_env && strcmp(name, "shared") != 0) return NULL;
    if (!takes_env) return manner & 8 ? draw_keywords(input, &is_sound) : NULL;
    PyObject* kwargs = manner & 8 && take_byte(input) % 2 ? draw_keywords(input, &is_sound) : usual_keywords();
    if (manner & 16) {
        PyObject* thing = any_thing(input);
        PyDict_SetItemString(kwargs, "shared", thing);
        Py_DECREF(thing);
    } else if (strcmp(name, "env_init") == 0 || has_table) {
        PyDict_SetItemString(kwargs, "shared", shared_of_env);
    }
    return kwargs;
}

static void call_one(Input* input) {
    PyObject* function = functions[take_byte(input) % (uint32_t)num_functions];
    const char* name = ((PyCFunctionObject*)function)->m_ml->ml_name;
    uint32_t manner = take_byte(input);
    if (has_table && manner != UINT8_MAX && strcmp(name, "shared") == 0) return;
    PyObject* args = draw_arguments(signature_of(name), manner, input);
    PyObject* kwargs = draw_call_keywords(name, manner, input);
    PyObject* result = PyObject_Call(function, args, kwargs);
    num_calls++;
    if (result == NULL) {
        check_refusal();
    } else if (result == Py_None) {
        Py_DECREF(result);
    } else {
        // In the place of an earlier one, so that handles are dropped in any order.
        PyObject** place = &things[FIRST_FREE + take_byte(input) % (NUM_THINGS - FIRST_FREE)];
        Py_XSETREF(*place, result);
    }
    num_served += result != NULL;
    Py_XDECREF(kwargs);
    Py_DECREF(args);
}

// --------------------------------------------------------------------------------------------------------- one input

static void call_input(Input input) {
    PufferLayout layout;
    PyObject* kwargs = usual_keywords();
    if (!layout_of(kwargs, shared_of_env, &layout)) broken("the usual keyword arguments were refused");
    Rows one = rows_open(layout, 1), two = rows_open(layout, 2);
    for (int i = 0; i < NUM_VIEWS; i++) {
        things[i] = Py_NewRef(one.views[i]);
        things[NUM_VIEWS + i] = Py_NewRef(two.views[i]);
    }
    ArraySpec specs[NUM_ARRAYS];
    array_specs(&layout, specs);
    specs[OBSERVATIONS].row_size = 1;
    void* narrow[2];
    for (int i = 0; i < 2; i++) {
        Py_ssize_t count = (Py_ssize_t)layout.num_agents * (1 + i);
        narrow[i] = allocate((size_t)(count * specs[OBSERVATIONS].type.item_size));
        things[NARROW + i] = served(view_of(narrow[i], &specs[OBSERVATIONS], count), "no view of a narrow array");
    }
    PyObject* vec = things[FIRST_FREE] = served(make_vec(&two, 0, kwargs), "sound arguments were refused");
    if (take_byte(&input) % 2) {
        Py_DECREF(served(call_with(py_vec_reset, vec, NULL), "a reset was refused"));
        things[FIRST_FREE + 1] = served(py_vec_snapshot(NULL, vec), "no snapshot was given");
        PyObject* args = PyTuple_Pack(2, vec, Py_False);
        things[FIRST_FREE + 2] = served(py_vec_env(NULL, args), "no handle of one environment");
        Py_DECREF(args);
    }
    things[FIRST_FREE - 1] = Py_NewRef(shared_of_env);
    for (int i = 0; i < MOST_CALLS && input.left > 0; i++) call_one(&input);
    for (int i = 0; i < NUM_THINGS; i++) Py_CLEAR(things[i]);
    Py_DECREF(kwargs);
    for (int i = 0; i < 2; i++) free(narrow[i]);
    rows_close(&two);
    rows_close(&one);
}
