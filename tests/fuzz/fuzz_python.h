// fuzz_python.h - calls of the binding as a fuzzer makes them, and what must hold of each refusal.
#pragma once

#include "fuzz_input.h"

typedef enum { INTEGER, NUMBER, SWITCH } KeywordKind;

// A keyword argument, as the binding tells of it.
typedef struct {
    const char* name;
    KeywordKind kind;
    double low, high, usual;
    double cost;  // how many times as long a step takes by each one more of it, 1 where it does not
} Keyword;

static const Keyword KEYWORDS_OF_ENV[] = {KEYWORD_ROWS{NULL, SWITCH, 0, 0, 0, 1}};

// A refusal is one sentence of a class that callers expect.
static void check_refusal(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) broken("a call failed and raised nothing");
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject* const expected[] = {PyExc_TypeError,  PyExc_ValueError,  PyExc_RuntimeError,
                                  PyExc_IndexError, PyExc_MemoryError, PyExc_ImportError};
    bool is_expected = false;
    for (int i = 0; i < 6; i++) is_expected = is_expected || PyErr_GivenExceptionMatches(value, expected[i]);
    PyObject* words = PyObject_Str(value);
    const char* text = words ? PyUnicode_AsUTF8(words) : NULL;
    bool is_sentence = text != NULL && *text != 0 && strchr(text, '\n') == NULL;
    if (!is_expected || (!is_sentence && !PyErr_GivenExceptionMatches(value, PyExc_MemoryError))) {
        PyObject_Print(value, stderr, 0);
        broken(is_expected ? " is not one sentence" : " is of a class that no caller expects");
    }
    Py_XDECREF(words);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

// The result of a call that must be served; a new reference.
static PyObject* served(PyObject* result, const char* what) {
    if (result != NULL) return result;
    PyErr_Print();
    broken(what);
    return NULL;
}

// Whether a call that may be refused was served.
static bool was_served(PyObject* result) {
    if (result == NULL) check_refusal();
    Py_XDECREF(result);
    return result != NULL;
}

static PyObject* keyword_number(const Keyword* keyword, double value) {
    if (keyword->kind == SWITCH) return PyBool_FromLong(value != 0);
    return keyword->kind == INTEGER ? PyLong_FromDouble(value) : PyFloat_FromDouble(value);
}

// A value within the range of a keyword argument, the ends often.
static PyObject* keyword_within(const Keyword* keyword, Input* input) {
    uint32_t drawn = take_byte(input);
    double low = keyword->kind == SWITCH ? 0 : keyword->low, high = keyword->kind == SWITCH ? 1 : keyword->high;
    if (drawn < 16) return keyword_number(keyword, low);
    if (drawn >= 240) return keyword_number(keyword, high);
    double part = (drawn - 16) / 223.0, value = low + part * (high - low);
    return keyword_number(keyword, keyword->kind == NUMBER ? value : floor(value + 0.5));
}

// A value that no keyword argument of this kind takes, NULL for one that is left out.
static PyObject* keyword_outside(const Keyword* keyword, Input* input) {
    switch (take_byte(input) % 12) {
        case 0:
            return keyword->kind == SWITCH ? PyLong_FromLong(1) : keyword_number(keyword, keyword->low - 1);
        case 1:
            return keyword->kind == SWITCH ? PyLong_FromLong(0) : keyword_number(keyword, keyword->high + 1);
        case 2:
            return PyLong_FromUnsignedLongLong(UINT64_MAX);
        case 3:
            return PyLong_FromLongLong(INT64_MIN);
        case 4:
            return PyFloat_FromDouble(NAN);
        case 5:
            return PyFloat_FromDouble(INFINITY);
        case 6:
            return PyFloat_FromDouble(-1e308);
        case 7:
            return PyUnicode_FromString("text");
        case 8:
            return PyBytes_FromStringAndSize("\0\n", 2);
        case 9:
            return Py_NewRef(Py_None);
        case 10:
            return PyTuple_New(0);
        default:
            return NULL;
    }
}

static PyObject* usual_keywords(void) {
    PyObject* kwargs = PyDict_New();
    for (const Keyword* keyword = KEYWORDS_OF_ENV; keyword->name != NULL; keyword++) {
        PyObject* value = keyword_number(keyword, keyword->usual);
        PyDict_SetItemString(kwargs, keyword->name, value);
        Py_DECREF(value);
    }
    return kwargs;
}

// Keyword arguments, most of them within their ranges; is_sound says whether all are.
static PyObject* draw_keywords(Input* input, bool* is_sound) {
    PyObject* kwargs = PyDict_New();
    *is_sound = true;
    for (const Keyword* keyword = KEYWORDS_OF_ENV; keyword->name != NULL; keyword++) {
        bool is_within = take_byte(input) % 8 != 0;
        PyObject* value = is_within ? keyword_within(keyword, input) : keyword_outside(keyword, input);
        *is_sound = *is_sound && is_within;
        if (value != NULL) PyDict_SetItemString(kwargs, keyword->name, value);
        Py_XDECREF(value);
    }
    if (take_byte(input) % 16 == 1) {
        PyDict_SetItemString(kwargs, "surplus", Py_None);
        *is_sound = false;
    }
    return kwargs;
}

// Arrays of an environment as Python sees them, over memory of exactly the sizes that the layout names: a byte too far
// is an error.
enum { FINAL = NUM_ARRAYS, NUM_VIEWS };

typedef struct {
    PufferLayout layout;
    int num_envs;
    void* memory[NUM_VIEWS];  // owned
    size_t bytes[NUM_VIEWS];
    PyObject* views[NUM_VIEWS];  // held
} Rows;

// A buffer's format must outlive it.
static char* format_of(const ArraySpec* spec) {
    static char formats[][2] = {"B", "b", "i", "f"};
    for (int i = 0; i < 4; i++) {
        if (formats[i][0] == spec->type.formats[0]) return formats[i];
    }
    return formats[0];  // flags
}

static PyObject* view_of(void* memory, const ArraySpec* spec, Py_ssize_t rows) {
    Py_ssize_t shape[2] = {rows, spec->row_size};
    Py_ssize_t strides[2] = {spec->row_size * spec->type.item_size, spec->type.item_size};
    Py_buffer view = {.buf = memory,
                      .len = rows * spec->row_size * spec->type.item_size,
                      .itemsize = spec->type.item_size,
                      .ndim = spec->without_columns ? 1 : 2,
                      .format = format_of(spec),
                      .shape = shape,
                      .strides = strides};
    return PyMemoryView_FromBuffer(&view);
}

static Rows rows_open(PufferLayout layout, int num_envs) {
    Rows rows = {.layout = layout, .num_envs = num_envs};
    ArraySpec specs[NUM_VIEWS];
    array_specs(&layout, specs);
    specs[FINAL] = specs[OBSERVATIONS];
    Py_ssize_t count = (Py_ssize_t)num_envs * layout.num_agents;
    for (int i = 0; i < NUM_VIEWS; i++) {
        rows.bytes[i] = (size_t)(count * specs[i].row_size * specs[i].type.item_size);
        rows.memory[i] = allocate(rows.bytes[i]);
        rows.views[i] = served(view_of(rows.memory[i], &specs[i], count), "no view of an array");
    }
    return rows;
}

static void rows_close(Rows* rows) {
    for (int i = 0; i < NUM_VIEWS; i++) {
        Py_DECREF(rows->views[i]);
        free(rows->memory[i]);
    }
}

// What the keyword arguments make of an environment; false where they are refused.
static bool layout_of(PyObject* kwargs, PyObject* shared, PufferLayout* layout) {
    Env* env = allocate(sizeof(*env));
    PyObject* args = PyTuple_New(0);
    bool is_made = env_configure(env, args, kwargs, shared) == 0;
    if (is_made) *layout = c_layout(env);
    Py_DECREF(args);
    free(env);
    return is_made;
}

static PyObject* shared_of_env;  // held for the life of the process

// With the table that all have in common, as another one may take milliseconds to fill.
static PyObject* make_vec(const Rows* rows, uint64_t seed, PyObject* kwargs) {
    PyDict_SetItemString(kwargs, "shared", shared_of_env);
    PyObject* args = PyTuple_New(NUM_ARRAYS + 2);
    for (int i = 0; i < NUM_ARRAYS; i++) PyTuple_SET_ITEM(args, i, Py_NewRef(rows->views[i]));
    PyTuple_SET_ITEM(args, NUM_ARRAYS, PyLong_FromLong(rows->num_envs));
    PyTuple_SET_ITEM(args, NUM_ARRAYS + 1, PyLong_FromUnsignedLongLong(seed));
    PyObject* vec = py_vec_init(NULL, args, kwargs);
    Py_DECREF(args);
    return vec;
}

static PyObject* call_with(PyCFunction function, PyObject* one, PyObject* other) {
    PyObject* args = other ? PyTuple_Pack(2, one, other) : PyTuple_Pack(1, one);
    PyObject* result = function(NULL, args);
    Py_DECREF(args);
    return result;
}
