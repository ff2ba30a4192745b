// libc.h - the few functions of the C library that headers of environments, their pictures and policies call, for
// WebAssembly, where there is no library; math.h, string.h, stdio.h and stdlib.h are this file there.
//
// What rounds differently from one library to the next is the page's: JavaScript's Math in double precision, rounded
// once. No rules of the shipped environments depend on it, only pictures and what policies draw.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define JS(module, name) __attribute__((import_module(module), import_name(name))) extern

// ------------------------------------------------------------------------------------------------------------ math.h

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define M_PI 3.14159265358979323846
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)

#define MATH(name)         \
    JS("Math", #name)      \
    double name(double x); \
    static inline float name##f(float x) { return (float)name((double)x); }
MATH(sin)
MATH(cos)
MATH(tan)
MATH(asin)
MATH(acos)
MATH(atan)
MATH(sinh)
MATH(cosh)
MATH(tanh)
MATH(exp)
MATH(expm1)
MATH(log)
MATH(log2)
MATH(log10)
MATH(log1p)
MATH(cbrt)
#undef MATH

JS("Math", "pow") double pow(double x, double y);
JS("Math", "atan2") double atan2(double y, double x);
JS("page", "remainder") double fmod(double x, double y);  // exact, as C's
static inline float powf(float x, float y) { return (float)pow((double)x, (double)y); }
static inline float atan2f(float y, float x) { return (float)atan2((double)y, (double)x); }
static inline float fmodf(float x, float y) { return (float)fmod((double)x, (double)y); }
static inline double exp2(double x) { return pow(2.0, x); }
static inline float exp2f(float x) { return (float)exp2((double)x); }

// These are exact, or single instructions.
static inline float sqrtf(float x) { return __builtin_sqrtf(x); }
static inline double sqrt(double x) { return __builtin_sqrt(x); }
static inline float floorf(float x) { return __builtin_floorf(x); }
static inline double floor(double x) { return __builtin_floor(x); }
static inline float ceilf(float x) { return __builtin_ceilf(x); }
static inline double ceil(double x) { return __builtin_ceil(x); }
static inline float truncf(float x) { return __builtin_truncf(x); }
static inline double trunc(double x) { return __builtin_trunc(x); }
static inline float rintf(float x) { return __builtin_rintf(x); }
static inline float fabsf(float x) { return __builtin_fabsf(x); }
static inline double fabs(double x) { return __builtin_fabs(x); }
static inline float copysignf(float x, float sign) { return __builtin_copysignf(x, sign); }
static inline double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
static inline float fminf(float x, float y) { return x < y || y != y ? x : y; }
static inline float fmaxf(float x, float y) { return x > y || y != y ? x : y; }
static inline double fmin(double x, double y) { return x < y || y != y ? x : y; }
static inline double fmax(double x, double y) { return x > y || y != y ? x : y; }
static inline double round(double x) { return copysign(floor(fabs(x) + 0.5), x); }  // exact for every float
static inline float roundf(float x) { return (float)round((double)x); }
static inline long lroundf(float x) { return (long)roundf(x); }
static inline float hypotf(float x, float y) { return (float)sqrt((double)x * (double)x + (double)y * (double)y); }

// ---------------------------------------------------------------------------------------------------------- string.h

void* memcpy(void* target, const void* source, size_t count);
void* memmove(void* target, const void* source, size_t count);
void* memset(void* target, int value, size_t count);
int memcmp(const void* left, const void* right, size_t count);
size_t strlen(const char* text);
int strcmp(const char* left, const char* right);
int strncmp(const char* left, const char* right, size_t count);
char* strchr(const char* text, int letter);
char* strcpy(char* target, const char* text);
char* strncpy(char* target, const char* text, size_t count);

// ------------------------------------------------------------------------------------------------- stdlib.h, stdio.h

#define assert(truth) ((void)0)

static inline int abs(int x) { return x < 0 ? -x : x; }

typedef void FILE;
#define stderr ((FILE*)0)
#define stdout ((FILE*)0)
#define EOF (-1)
int fprintf(FILE* file, const char* format, ...);  // goes nowhere
int snprintf(char* text, size_t size, const char* format, ...);
