// puffer_render_module.c - the Python module that draws one environment. setup.py compiles it for every one that has a
// `<name>_render.h`, with two definitions: RENDER_HEADER "squared_render.h" and ENV_NAME "squared".
//
// raylib keeps one window per process, so a module has one client. pufferlib.ocean.rendering is the only caller: it
// loads raylib before it imports this module and sees to it that one window is open at a time. The GIL is held
// throughout, and the environment that was drawn last is kept alive, so that its address tells it from others.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include RENDER_HEADER

#include "puffer_render.h"

void rlDrawRenderBatchActive(void);  // rlgl: flushes what was drawn so far

static Client client;
static PyObject* subject;        // held: the handle of the environment that `client` was opened for, NULL when closed
static PufferWindow window;      // what that environment asked for
static bool is_paced;            // drawn at the pace a person watches, not as fast as it goes
static bool is_flipped, is_bgr;  // how the frames that raylib hands out are stored, see probe_screen

// An environment handle begins with the pointer to its struct (EnvHandle in puffer_binding.h).
static const void* env_from(PyObject* capsule) {
    const char* name = "pufferlib.ocean." ENV_NAME ".env";
    if (PyCapsule_IsValid(capsule, name)) return *(void**)PyCapsule_GetPointer(capsule, name);
    PyErr_Format(PyExc_TypeError, ENV_NAME ": expected an environment handle to draw, got %s",
                 Py_TYPE(capsule)->tp_name);
    return NULL;
}

static Image read_screen(void) {
    rlDrawRenderBatchActive();
    Image image = LoadImageFromScreen();
    ImageFormat(&image, PIXELFORMAT_UNCOMPRESSED_R8G8B8);
    return image;
}

// raylib's software renderer hands out its frames upside down and as BGR, its OpenGL one does not: draw a known
// picture and look.
static void probe_screen(void) {
    BeginDrawing();
    const Color black = {0, 0, 0, 255}, red = {255, 0, 0, 255};
    ClearBackground(black);
    DrawRectangle(0, 0, GetScreenWidth(), GetScreenHeight() / 2, red);
    Image image = read_screen();
    EndDrawing();
    const unsigned char* pixels = image.data;
    const unsigned char* bottom = pixels + (size_t)(image.height - 1) * (size_t)image.width * 3;
    is_flipped = bottom[0] > 0 || bottom[2] > 0;
    is_bgr = (is_flipped ? bottom : pixels)[2] > 0;
    UnloadImage(image);
}

static void correct_frame(Image* image) {
    if (is_flipped) ImageFlipVertical(image);
    unsigned char* pixel = image->data;
    for (int i = 0; is_bgr && i < image->width * image->height; i++, pixel += 3) {
        unsigned char blue = pixel[0];
        pixel[0] = pixel[2];
        pixel[2] = blue;
    }
}

// raylib's software renderer prints a banner to standard output, which belongs to the program: while it starts, that
// goes nowhere. Returns what unmute_stdout needs, -1 when there is no standard output.
static int mute_stdout(void) {
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    int nowhere = open("/dev/null", O_WRONLY);
    if (saved >= 0 && nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    if (nowhere >= 0) close(nowhere);
    return saved;
}

static void unmute_stdout(int saved) {
    if (saved < 0) return;
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

static void open_window(bool is_paced) {
    SetTraceLogLevel(LOG_ERROR);
    int saved = mute_stdout();
    InitWindow(window.width, window.height, window.title);
    unmute_stdout(saved);
    if (!IsWindowReady()) return;
    probe_screen();
    SetTargetFPS(is_paced ? window.fps : 0);
}

static void close_window(void) {
    if (!IsWindowReady()) return;
    int saved = mute_stdout();
    CloseWindow();
    unmute_stdout(saved);
}

// Makes the client and the window those of an environment. A window of another size is opened anew: raylib's software
// renderer writes out of bounds after SetWindowSize.
static int show(PyObject* capsule, const void* env) {
    PufferWindow last = window;
    if (IsWindowReady()) c_close_client(&client);
    memset(&client, 0, sizeof(client));
    window = c_open_client(&client, env);
    if (window.width != last.width || window.height != last.height) close_window();
    if (!IsWindowReady()) open_window(is_paced);
    if (!IsWindowReady()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "raylib could not open a window; set SDL_VIDEO_DRIVER=dummy to draw off-screen");
        return -1;
    }
    Py_XSETREF(subject, Py_NewRef(capsule));
    return 0;
}

static PyObject* render_open(PyObject* self, PyObject* args) {
    PyObject* capsule;
    int wants_pace;
    if (!PyArg_ParseTuple(args, "Op:open", &capsule, &wants_pace)) return NULL;
    const void* env = env_from(capsule);
    is_paced = wants_pace;
    if (env == NULL || show(capsule, env) < 0) return NULL;
    return PyLong_FromLong(window.fps);
}

// Draws one frame and returns (height, width, RGB bytes).
static PyObject* render_draw(PyObject* self, PyObject* capsule) {
    const void* env = env_from(capsule);
    if (env == NULL) return NULL;
    if (subject == NULL || !IsWindowReady()) {
        PyErr_SetString(PyExc_RuntimeError, "the window is closed; call render() on the environment again");
        return NULL;
    }
    if (env != env_from(subject) && show(capsule, env) < 0) return NULL;
    BeginDrawing();
    ClearBackground(PUFFER_BACKGROUND);
    c_render(env, &client);
    Image image = read_screen();
    EndDrawing();
    if (image.data == NULL) return PyErr_NoMemory();
    correct_frame(&image);
    PyObject* frame = Py_BuildValue("iiy#", image.height, image.width, (const char*)image.data,
                                    (Py_ssize_t)image.width * image.height * 3);
    UnloadImage(image);
    return frame;
}

static PyObject* render_is_closing(PyObject* self, PyObject* unused) {
    return PyBool_FromLong(IsWindowReady() && WindowShouldClose());
}

static PyObject* render_close(PyObject* self, PyObject* unused) {
    if (IsWindowReady()) c_close_client(&client);
    close_window();
    Py_CLEAR(subject);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"open", render_open, METH_VARARGS, "open(env, is_paced) -> frames per second; opens the window"},
    {"draw", render_draw, METH_O, "draw(env) -> (height, width, RGB bytes)"},
    {"is_closing", render_is_closing, METH_NOARGS,
     "is_closing() -> whether the person closed the window or pressed ESC"},
    {"close", render_close, METH_NOARGS, "close(): closes the window; twice is harmless"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "render", "Draws " ENV_NAME " with raylib.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_render(void) { return PyModule_Create(&MODULE); }
