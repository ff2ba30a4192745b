// puffer_kwargs.h - how my_init reads keyword arguments, and a log becomes a dict; part of puffer_binding.h.
//
// Each helper removes the key it reads from kwargs, so that what is left over at the end is what nobody knows. All
// return 0, or -1 with a Python exception set.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

// What to call a value in an error: its repr where that is short, else its type. A new reference or NULL.
static PyObject* found_value(PyObject* value) {
    bool is_short = value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value);
    bool is_text = PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) < 80;
    return is_short || is_text ? PyObject_Repr(value) : PyUnicode_FromString(Py_TYPE(value)->tp_name);
}

// Sets an exception whose message is `ENV_NAME: <name> must be <what>, got <value>`.
static void raise_unfit(PyObject* exception, const char* name, const char* what, PyObject* value) {
    PyObject* found = found_value(value);
    if (found != NULL) PyErr_Format(exception, ENV_NAME ": %s must be %s, got %U", name, what, found);
    Py_XDECREF(found);
}

// Returns a new reference, or NULL with an exception set.
static PyObject* kwarg_pop(PyObject* kwargs, const char* name) {
    PyObject* value = PyDict_GetItemString(kwargs, name);
    if (value == NULL) {
        PyErr_Format(PyExc_TypeError, ENV_NAME " needs the keyword argument '%s'", name);
        return NULL;
    }
    Py_INCREF(value);
    if (PyDict_DelItemString(kwargs, name) < 0) Py_CLEAR(value);
    return value;
}

static int integer_from(PyObject* value, const char* name, int low, int high, int* result) {
    int overflow = 0;
    PyObject* integer = PyBool_Check(value) ? NULL : PyNumber_Index(value);
    long number = integer ? PyLong_AsLongAndOverflow(integer, &overflow) : 0;
    bool is_valid = integer != NULL && overflow == 0 && number >= low && number <= high;
    PyErr_Clear();
    if (is_valid) {
        *result = (int)number;
    } else {
        char what[80];
        PyOS_snprintf(what, sizeof(what), "an integer from %d to %d", low, high);
        raise_unfit(integer ? PyExc_ValueError : PyExc_TypeError, name, what, value);
    }
    Py_XDECREF(integer);
    return is_valid ? 0 : -1;
}

static inline int kwarg_int(PyObject* kwargs, const char* name, int low, int high, int* result) {
    PyObject* value = kwarg_pop(kwargs, name);
    if (value == NULL) return -1;
    int status = integer_from(value, name, low, high, result);
    Py_DECREF(value);
    return status;
}

static inline int kwarg_float(PyObject* kwargs, const char* name, double low, double high, float* result) {
    PyObject* value = kwarg_pop(kwargs, name);
    if (value == NULL) return -1;
    double number = PyBool_Check(value) ? -1.0 : PyFloat_AsDouble(value);
    bool is_number = !PyBool_Check(value) && !PyErr_Occurred();
    bool is_valid = is_number && number >= low && number <= high;
    PyErr_Clear();
    if (is_valid) {
        *result = (float)number;
    } else {
        char what[80];
        PyOS_snprintf(what, sizeof(what), "a number from %g to %g", low, high);
        raise_unfit(is_number ? PyExc_ValueError : PyExc_TypeError, name, what, value);
    }
    Py_DECREF(value);
    return is_valid ? 0 : -1;
}

static inline int kwarg_bool(PyObject* kwargs, const char* name, bool* result) {
    PyObject* value = kwarg_pop(kwargs, name);
    if (value == NULL) return -1;
    bool is_valid = PyBool_Check(value);
    if (is_valid) {
        *result = value == Py_True;
    } else {
        raise_unfit(PyExc_TypeError, name, "True or False", value);
    }
    Py_DECREF(value);
    return is_valid ? 0 : -1;
}

static int kwargs_are_used_up(PyObject* kwargs) {
    if (PyDict_Size(kwargs) == 0) return 0;
    PyObject* names = PyDict_Keys(kwargs);
    if (names != NULL) {
        PyErr_Format(PyExc_TypeError, ENV_NAME " does not know the keyword argument(s) %R; read them in binding.c",
                     names);
    }
    Py_XDECREF(names);
    return -1;
}

static inline int log_float(PyObject* dict, const char* name, float value) {
    PyObject* number = PyFloat_FromDouble((double)value);
    if (number == NULL) return -1;
    int status = PyDict_SetItemString(dict, name, number);
    Py_DECREF(number);
    return status;
}
