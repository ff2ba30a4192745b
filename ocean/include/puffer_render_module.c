// puffer_render_module.c - the Python module that draws one environment. setup.py compiles it for every one that has a
// `<name>_render.h`, with two definitions: RENDER_HEADER "squared_render.h" and ENV_NAME "squared".
//
// pufferlib.ocean.rendering is the only caller: it opens a screen before it draws. What is drawn are copies of an
// environment, made by its binding, so that nothing here can meet an environment that is stepped or gone.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include RENDER_HEADER

#include "puffer_render.h"
#include "puffer_state.h"

#define PICTURE_CAPSULE "pufferlib.ocean." ENV_NAME ".picture"

typedef struct {
    Client client;
    bool is_open;  // `client` holds what c_close_client is to unload
    PufferPicture asked;
} Picture;

static const PufferState* state_from(PyObject* capsule) {
    const PufferState* state = NULL;
    if (PyCapsule_IsValid(capsule, PUFFER_STATE_CAPSULE)) state = PyCapsule_GetPointer(capsule, PUFFER_STATE_CAPSULE);
    if (state == NULL || state->env_bytes != sizeof(Env)) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": expected a state from " ENV_NAME ".env_state, got %s",
                     state ? "one of another build" : Py_TYPE(capsule)->tp_name);
        return NULL;
    }
    return state;
}

static Picture* picture_from(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, PICTURE_CAPSULE)) return PyCapsule_GetPointer(capsule, PICTURE_CAPSULE);
    PyErr_Format(PyExc_TypeError, ENV_NAME ": expected a picture from open(), got %s", Py_TYPE(capsule)->tp_name);
    return NULL;
}

static void picture_open(Picture* picture, const Env* env) {
    if (picture->is_open) return;
    memset(&picture->client, 0, sizeof(picture->client));
    picture->asked = c_open_client(&picture->client, env);
    picture->is_open = true;
}

static void picture_close(Picture* picture) {
    if (picture->is_open && IsWindowReady()) c_close_client(&picture->client);
    picture->is_open = false;
}

static void picture_delete(PyObject* capsule) {
    Picture* picture = PyCapsule_GetPointer(capsule, PICTURE_CAPSULE);
    picture_close(picture);
    free(picture);
}

static PyObject* render_open(PyObject* self, PyObject* state_capsule) {
    const PufferState* state = state_from(state_capsule);
    if (state == NULL) return NULL;
    Picture* picture = calloc(1, sizeof(*picture));
    if (picture == NULL) return PyErr_NoMemory();
    picture_open(picture, &state->env);
    PyObject* capsule = PyCapsule_New(picture, PICTURE_CAPSULE, picture_delete);
    if (capsule == NULL) free(picture);
    return capsule;
}

static PyObject* render_describe(PyObject* self, PyObject* capsule) {
    const Picture* picture = picture_from(capsule);
    if (picture == NULL) return NULL;
    const PufferPicture* asked = &picture->asked;
    return Py_BuildValue("iids", asked->width, asked->height, (double)asked->steps_per_second, asked->title);
}

static void take_arrays(Env* env, const Env* other) {
    env->observations = other->observations;
    env->actions = other->actions;
    env->rewards = other->rewards;
    env->terminals = other->terminals;
    env->truncations = other->truncations;
}

// Whether the environment was not stepped between two states of it.
static bool is_same_moment(const PufferState* before, const PufferState* now) {
    Env env;
    memcpy(&env, &before->env, sizeof(env));  // not an assignment, which may leave the padding out
    take_arrays(&env, &now->env);
    return memcmp(&env, &now->env, sizeof(env)) == 0;
}

static void draw_picture(Picture* picture, const Env* before, const Env* now, float progress) {
    float scale = puffer_view.scale;
    picture_open(picture, now);
    int left = (int)floorf(puffer_view.x), top = (int)floorf(puffer_view.y);
    int right = (int)ceilf(puffer_view.x + scale * (float)picture->asked.width);
    int bottom = (int)ceilf(puffer_view.y + scale * (float)picture->asked.height);
    BeginScissorMode(left, top, right - left, bottom - top);
    rlPushMatrix();
    rlTranslatef(puffer_view.x, puffer_view.y, 0.0f);
    rlScalef(scale, scale, 1.0f);
    c_render(&picture->client, before, now, progress);
    rlPopMatrix();
    EndScissorMode();
}

static const PufferFonts* fonts_from(PyObject* capsule) {
    const PufferFonts* fonts = NULL;
    if (PyCapsule_IsValid(capsule, PUFFER_FONTS_CAPSULE)) fonts = PyCapsule_GetPointer(capsule, PUFFER_FONTS_CAPSULE);
    if (fonts == NULL || fonts->version != PUFFER_FONTS_VERSION) {
        PyErr_SetString(PyExc_TypeError, ENV_NAME ": expected the fonts of the screen's module, of the same build");
        return NULL;
    }
    return fonts;
}

// Returns whether the numbers say where a picture can be; NaN does not.
static bool is_place(float x, float y, float scale) {
    const float far = 1e6f;  // pixels; a float still tells them apart
    return fabsf(x) <= far && fabsf(y) <= far && scale >= 1e-3f && scale <= 1e3f;
}

static PyObject* render_draw(PyObject* self, PyObject* args) {
    PyObject *capsule, *fonts_capsule, *before_capsule, *now_capsule;
    float x, y, scale, progress;
    if (!PyArg_ParseTuple(args, "OOOOffff:draw", &capsule, &fonts_capsule, &before_capsule, &now_capsule, &x, &y,
                          &scale, &progress)) {
        return NULL;
    }
    Picture* picture = picture_from(capsule);
    const PufferFonts* fonts = picture ? fonts_from(fonts_capsule) : NULL;
    const PufferState* before = fonts ? state_from(before_capsule) : NULL;
    const PufferState* now = before ? state_from(now_capsule) : NULL;
    if (now == NULL) return NULL;
    if (!is_place(x, y, scale)) {
        PyErr_Format(PyExc_ValueError, ENV_NAME
                     ": a picture cannot be drawn there; x and y are pixels, scale is from "
                     "0.001 to 1000");
        return NULL;
    }
    if (!IsWindowReady()) {
        PyErr_SetString(PyExc_RuntimeError, ENV_NAME ": there is no screen to draw on; open a Screen first");
        return NULL;
    }
    puffer_view = (PufferView){x, y, scale, fonts->font};
    Env earlier = before->env;
    earlier.actions = now->env.actions;  // those that led from there to here
    bool has_moved = !is_same_moment(before, now);
    draw_picture(picture, has_moved ? &earlier : &now->env, &now->env, has_moved ? clampf(progress, 0.0f, 1.0f) : 1.0f);
    Py_RETURN_NONE;
}

static PyObject* render_close(PyObject* self, PyObject* capsule) {
    Picture* picture = picture_from(capsule);
    if (picture == NULL) return NULL;
    picture_close(picture);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"open", render_open, METH_O, "open(state) -> picture of that environment"},
    {"describe", render_describe, METH_O, "describe(picture) -> (width, height, steps per second, title)"},
    {"draw", render_draw, METH_VARARGS, "draw(picture, fonts, before, now, x, y, scale, progress)"},
    {"close", render_close, METH_O, "close(picture): unloads what was loaded; draw() loads it again"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "render", "Draws " ENV_NAME " with raylib.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_render(void) { return PyModule_Create(&MODULE); }
