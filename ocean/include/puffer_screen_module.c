// puffer_screen_module.c - the Python module under pufferlib.ocean.screen: raylib's one window of this process, its
// frames, and the font.
//
// pufferlib.ocean.screen is the only caller: it loads raylib before it imports this module. The GIL is held throughout.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "puffer_shapes.h"

enum { MAX_FONTS = 32, MIN_FONT_PIXELS = 4, MAX_FONT_PIXELS = 400 };

static Font fonts[MAX_FONTS];  // baked so far, oldest first
static int num_fonts;
static PyObject* font_file;      // held: the bytes of the TTF that fonts are baked from
static bool is_off_screen;       // nobody sees the window
static bool is_lent;             // frames are read where raylib draws them, see take_shot
static bool is_flipped, is_bgr;  // how they are stored, see probe_screen

// What the font has glyphs for: printable ASCII and a few signs.
static const int SIGNS[] = {0xB0, 0xB1, 0xB7, 0xD7, 0x2013, 0x2026};

// ----------------------------------------------------------------------------------------------------------- fonts

static Font bake_font(int pixels) {
    enum { FIRST = 32, LAST = 126, NUM_SIGNS = sizeof(SIGNS) / sizeof(SIGNS[0]) };
    int glyphs[LAST - FIRST + 1 + NUM_SIGNS], count = 0;
    for (int glyph = FIRST; glyph <= LAST; glyph++) glyphs[count++] = glyph;
    for (int i = 0; i < NUM_SIGNS; i++) glyphs[count++] = SIGNS[i];
    const unsigned char* bytes = (const unsigned char*)PyBytes_AS_STRING(font_file);
    return LoadFontFromMemory(".ttf", bytes, (int)PyBytes_GET_SIZE(font_file), pixels, glyphs, count);
}

static Font font_of(int pixels) {
    if (pixels < MIN_FONT_PIXELS) pixels = MIN_FONT_PIXELS;
    if (pixels > MAX_FONT_PIXELS) pixels = MAX_FONT_PIXELS;
    for (int i = 0; i < num_fonts; i++) {
        if (fonts[i].baseSize == pixels) return fonts[i];
    }
    if (num_fonts == MAX_FONTS) {
        rlDrawRenderBatchActive();  // what was written with the font that goes
        UnloadFont(fonts[0]);
        memmove(fonts, fonts + 1, --num_fonts * sizeof(fonts[0]));
    }
    return fonts[num_fonts++] = bake_font(pixels);
}

static const PufferFonts FONTS = {PUFFER_FONTS_VERSION, font_of};

// ---------------------------------------------------------------------------------------------------------- window

// Shapes drawn from here are in pixels of the screen.
static void use_whole_screen(void) { puffer_view = (PufferView){0.0f, 0.0f, 1.0f, font_of}; }

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

// What was drawn, four bytes a pixel.
typedef struct {
    const unsigned char* pixels;
    int width, height;
    Image image;  // owned: where the pixels are, empty if they are lent
} Shot;

// raylib's software renderer lends its picture, which spares two copies; its OpenGL one does not know this function.
__attribute__((weak)) void* swGetColorBuffer(int* width, int* height);

static Shot take_shot(void) {
    Shot shot = {0};
    rlDrawRenderBatchActive();
    if (is_lent) {
        shot.pixels = swGetColorBuffer(&shot.width, &shot.height);
    } else {
        shot.image = LoadImageFromScreen();
        ImageFormat(&shot.image, PIXELFORMAT_UNCOMPRESSED_R8G8B8A8);
        shot.pixels = shot.image.data;
        shot.width = shot.image.width;
        shot.height = shot.image.height;
    }
    return shot;
}

static void drop_shot(Shot* shot) {
    if (shot->image.data != NULL) UnloadImage(shot->image);
}

// Finds out from a picture that is red above and black below how its pixels are stored; false if in no known way.
static bool recognise(const Shot* shot) {
    if (shot->pixels == NULL) return false;
    const unsigned char* first = shot->pixels;
    const unsigned char* last = first + ((size_t)shot->width * (size_t)shot->height - 1) * 4;
    is_flipped = first[0] == 0 && first[2] == 0;
    const unsigned char *red = is_flipped ? last : first, *black = is_flipped ? first : last;
    is_bgr = red[0] == 0;
    return red[is_bgr ? 2 : 0] == 255 && red[is_bgr ? 0 : 2] == 0 && red[1] == 0 && black[is_bgr ? 2 : 0] == 0;
}

// raylib's two renderers differ in the order of rows and of colours: draw a known picture and look.
static void probe_screen(void) {
    const Color black = {0, 0, 0, 255}, red = {255, 0, 0, 255};
    BeginDrawing();
    ClearBackground(black);
    use_whole_screen();
    puffer_rectangle(0.0f, 0.0f, (float)GetScreenWidth(), 0.5f * (float)GetScreenHeight(), red);
    is_lent = swGetColorBuffer != NULL;
    Shot shot = take_shot();
    if (!recognise(&shot) && is_lent) {
        is_lent = false;
        shot = take_shot();
        recognise(&shot);
    }
    drop_shot(&shot);
    EndDrawing();
}

static bool has_window(void) {
    if (!IsWindowReady()) PyErr_SetString(PyExc_RuntimeError, "the screen is closed; open a new one");
    return IsWindowReady();
}

// Behind raylib on Linux, not on macOS. Having failed it would keep the environment variables that it failed with.
__attribute__((weak)) void SDL_Quit(void);

static PyObject* screen_open(PyObject* self, PyObject* args) {
    int width, height, is_hidden;
    const char* title;
    PyObject* ttf;
    if (!PyArg_ParseTuple(args, "iispS:open", &width, &height, &title, &is_hidden, &ttf)) return NULL;
    if (IsWindowReady()) {
        PyErr_SetString(PyExc_RuntimeError, "a window is open already; close it first");
        return NULL;
    }
    SetTraceLogLevel(LOG_NONE);  // not even of what is fatal: telling of it, raylib would end the process
    SetConfigFlags(is_hidden ? FLAG_WINDOW_HIDDEN : 0);
    int saved = mute_stdout();
    InitWindow(width, height, title);
    unmute_stdout(saved);
    if (!IsWindowReady()) {
        if (SDL_Quit != NULL) SDL_Quit();
        Py_RETURN_FALSE;
    }
    Py_XSETREF(font_file, Py_NewRef(ttf));
    is_off_screen = is_hidden;
    probe_screen();
    SetTargetFPS(0);
    Py_RETURN_TRUE;
}

static PyObject* screen_close(PyObject* self, PyObject* unused) {
    if (!IsWindowReady()) Py_RETURN_NONE;
    while (num_fonts > 0) UnloadFont(fonts[--num_fonts]);
    int saved = mute_stdout();
    CloseWindow();
    unmute_stdout(saved);
    Py_RETURN_NONE;
}

static PyObject* screen_is_closing(PyObject* self, PyObject* unused) {
    return PyBool_FromLong(IsWindowReady() && WindowShouldClose());
}

// --------------------------------------------------------------------------------------------------------- pictures

static PyObject* screen_begin(PyObject* self, PyObject* unused) {
    if (!has_window()) return NULL;
    BeginDrawing();
    ClearBackground(PUFFER_BACKGROUND);
    Py_RETURN_NONE;
}

static PyObject* screen_end(PyObject* self, PyObject* unused) {
    if (!has_window()) return NULL;
    if (is_off_screen) {
        rlDrawRenderBatchActive();  // there is nothing to show, and no keys
    } else {
        EndDrawing();
    }
    Py_RETURN_NONE;
}

// Four bytes a pixel as raylib stores them become three, red first.
static void convert_row(unsigned char* rgb, const unsigned char* pixels, int width) {
    int red = is_bgr ? 2 : 0;
    for (int x = 0; x < width; x++, rgb += 3, pixels += 4) {
        rgb[0] = pixels[red];
        rgb[1] = pixels[1];
        rgb[2] = pixels[2 - red];
    }
}

static void convert_shot(unsigned char* rgb, const Shot* shot) {
    size_t width = (size_t)shot->width;
    for (int y = 0; y < shot->height; y++) {
        size_t source = (size_t)(is_flipped ? shot->height - 1 - y : y);
        convert_row(rgb + (size_t)y * width * 3, shot->pixels + source * width * 4, shot->width);
    }
}

static PyObject* screen_frame(PyObject* self, PyObject* args) {
    Py_buffer frame;
    if (!PyArg_ParseTuple(args, "w*:frame", &frame)) return NULL;
    bool is_read = has_window();
    if (is_read) {
        Shot shot = take_shot();
        is_read = shot.pixels != NULL && frame.len == (Py_ssize_t)shot.width * shot.height * 3;
        if (is_read) {
            convert_shot(frame.buf, &shot);
        } else {
            PyErr_Format(PyExc_RuntimeError, "the screen is now %d x %d pixels, which is not what it was opened with",
                         shot.width, shot.height);
        }
        drop_shot(&shot);
    }
    PyBuffer_Release(&frame);
    if (!is_read) return NULL;
    Py_RETURN_NONE;
}

// For PyArg_ParseTuple: (red, green, blue, alpha).
static int color_from(PyObject* object, void* color_pointer) {
    Color* color = color_pointer;
    return PyArg_ParseTuple(object, "bbbb:colour", &color->r, &color->g, &color->b, &color->a);
}

static PyObject* screen_rectangle(PyObject* self, PyObject* args) {
    float x, y, width, height, radius;
    Color color;
    if (!PyArg_ParseTuple(args, "fffffO&:rectangle", &x, &y, &width, &height, &radius, color_from, &color)) return NULL;
    if (!has_window()) return NULL;
    use_whole_screen();
    if (radius > 0.0f) {
        puffer_rounded(x, y, width, height, radius, color);
    } else {
        puffer_rectangle(x, y, width, height, color);
    }
    Py_RETURN_NONE;
}

static PyObject* screen_line(PyObject* self, PyObject* args) {
    Py_buffer points;
    float width;
    Color color;
    if (!PyArg_ParseTuple(args, "y*fO&:line", &points, &width, color_from, &color)) return NULL;
    bool is_open = has_window();
    const Vector2* corners = points.buf;
    Py_ssize_t count = is_open ? points.len / (Py_ssize_t)sizeof(*corners) : 0;
    use_whole_screen();
    for (Py_ssize_t i = 1; i < count; i++) {
        puffer_line(corners[i - 1].x, corners[i - 1].y, corners[i].x, corners[i].y, width, color);
    }
    PyBuffer_Release(&points);
    if (!is_open) return NULL;
    Py_RETURN_NONE;
}

static PyObject* screen_text(PyObject* self, PyObject* args) {
    const char* text;
    float x, y;
    int pixels;
    Color color;
    if (!PyArg_ParseTuple(args, "sffiO&:text", &text, &x, &y, &pixels, color_from, &color) || !has_window()) {
        return NULL;
    }
    Font font = font_of(pixels);
    DrawTextEx(font, text, (Vector2){roundf(x), roundf(y)}, (float)font.baseSize, puffer_spacing(font), color);
    Py_RETURN_NONE;
}

static PyObject* screen_text_width(PyObject* self, PyObject* args) {
    const char* text;
    int pixels;
    if (!PyArg_ParseTuple(args, "si:text_width", &text, &pixels) || !has_window()) return NULL;
    Font font = font_of(pixels);
    return PyFloat_FromDouble((double)puffer_font_width(font, text));
}

// ---------------------------------------------------------------------------------------------------- module table

static PyMethodDef METHODS[] = {
    {"open", screen_open, METH_VARARGS, "open(width, height, title, is_hidden, ttf): opens the window"},
    {"close", screen_close, METH_NOARGS, "close(): closes the window; twice is harmless"},
    {"is_closing", screen_is_closing, METH_NOARGS,
     "is_closing() -> whether the person closed the window or pressed ESC"},
    {"begin", screen_begin, METH_NOARGS, "begin(): starts a picture on the background colour"},
    {"end", screen_end, METH_NOARGS, "end(): shows the picture, reads keys and mouse"},
    {"frame", screen_frame, METH_VARARGS,
     "frame(rgb): writes what was drawn since begin() into height * width * 3 bytes"},
    {"rectangle", screen_rectangle, METH_VARARGS, "rectangle(x, y, width, height, corner radius, (r, g, b, a))"},
    {"line", screen_line, METH_VARARGS, "line(float32 x, y, x, y, ..., width, (r, g, b, a))"},
    {"text", screen_text, METH_VARARGS, "text(string, x, y, pixels, (r, g, b, a))"},
    {"text_width", screen_text_width, METH_VARARGS, "text_width(string, pixels) -> pixels"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_screen", "raylib's window, its frames, the font.", -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__screen(void) {
    PyObject* module = PyModule_Create(&MODULE);
    PyObject* capsule = module ? PyCapsule_New((void*)&FONTS, PUFFER_FONTS_CAPSULE, NULL) : NULL;
    if (capsule == NULL || PyModule_AddObject(module, "fonts", capsule) < 0) {
        Py_XDECREF(capsule);
        Py_CLEAR(module);
    }
    return module;
}
