// puffer_binding.h - the settings of an environment where there is no Python; in place of Ocean's header of that name.
//
// An environment's binding reads keyword arguments by kwarg_int and its like. Here they are a list of numbers whose
// last name is NULL, under the name that Python has for everything. All functions return 0, or -1 after they have said
// why.
#pragma once

#include <stdio.h>

#include "puffer_env.h"

typedef struct {
    const char* name;
    double value;
} PyObject;

static inline int kwarg_number(const PyObject* kwargs, const char* name, double low, double high, double* result) {
    while (kwargs->name != NULL && strcmp(kwargs->name, name) != 0) kwargs++;
    if (kwargs->name != NULL && kwargs->value >= low && kwargs->value <= high) {
        *result = kwargs->value;
        return 0;
    }
    fprintf(stderr, ENV_NAME ": %s must be a number from %g to %g\n", name, low, high);
    return -1;
}

static inline int kwarg_int(const PyObject* kwargs, const char* name, int low, int high, int* result) {
    double number = 0;
    int status = kwarg_number(kwargs, name, low, high, &number);
    if (status == 0) *result = (int)number;
    return status;
}

static inline int kwarg_float(const PyObject* kwargs, const char* name, double low, double high, float* result) {
    double number = 0;
    int status = kwarg_number(kwargs, name, low, high, &number);
    if (status == 0) *result = (float)number;
    return status;
}

static inline int kwarg_bool(const PyObject* kwargs, const char* name, bool* result) {
    double number = 0;
    int status = kwarg_number(kwargs, name, 0, 1, &number);
    if (status == 0) *result = number != 0;
    return status;
}
