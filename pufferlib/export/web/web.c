// web.c - an environment, its picture and its policy as one WebAssembly module, for a page or for Node.
//
// web.js is the only caller. There are GAMES environments side by side, each with the rows of its agents, and one
// policy for all of them. The compiler is told RENDER_HEADER and BINDING, the file names, and AGENTS, the most of one
// environment; settings.h has its keyword arguments, and the policy is web_policy.h.
#define PUFFERNET_BLOCK 16
#define WEB_POLICY_AGENTS (GAMES * AGENTS)

enum { GAMES = 16 };

#include "web_policy.h"

#include RENDER_HEADER

#include "puffer_render.h"

#include BINDING

#define EXPORT(name) __attribute__((export_name(#name))) name

static PyObject settings[] = {SETTINGS{NULL, 0}};  // keyword arguments of the environment in Python

static int num_agents;                   // of one environment, now
static Env envs[GAMES], befores[GAMES];  // as they are, and as they were before the last step
static Client clients[GAMES];
static bool has_moved[GAMES];  // from what is kept
#ifdef MY_SHARED
static Shared shared;
#endif
static PufferPicture picture;
static WebPolicy policy;

enum { ROWS = GAMES * AGENTS, NUMBERS = ROWS * WEB_POLICY_OBSERVATION, ACTIONS = ROWS * WEB_POLICY_ACTION };

// The arrays of the environments, and those of the moment before.
static struct Arrays {
    WebPolicyObservation observations[NUMBERS];
    WebPolicyAction actions[ACTIONS];
    float rewards[ROWS];
    uint8_t terminals[ROWS], truncations[ROWS];
#ifdef ENV_ACTION_MASKS
    uint8_t action_masks[ROWS * WEB_POLICY_CHOICES];
#endif
#ifdef ENV_TURNS
    uint8_t masks[ROWS];
#endif
} arrays, earlier;
#ifdef ENV_TURNS
static bool is_pending[ROWS];  // the last episode has ended, and the agent has not moved since
#endif

// ------------------------------------------------------------------------------------------------------------ libc

void* memcpy(void* target, const void* source, size_t count) { return __builtin_memcpy(target, source, count); }
void* memmove(void* target, const void* source, size_t count) { return __builtin_memmove(target, source, count); }
void* memset(void* target, int value, size_t count) { return __builtin_memset(target, value, count); }

int memcmp(const void* left, const void* right, size_t count) {
    const uint8_t *one = left, *other = right;
    for (size_t i = 0; i < count; i++) {
        if (one[i] != other[i]) return one[i] - other[i];
    }
    return 0;
}

size_t strlen(const char* text) {
    size_t length = 0;
    while (text[length] != '\0') length++;
    return length;
}

int strncmp(const char* left, const char* right, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (left[i] != right[i] || left[i] == '\0') return (uint8_t)left[i] - (uint8_t)right[i];
    }
    return 0;
}

int strcmp(const char* left, const char* right) { return strncmp(left, right, SIZE_MAX); }

char* strchr(const char* text, int letter) {
    for (;; text++) {
        if (*text == (char)letter) return (char*)text;
        if (*text == '\0') return NULL;
    }
}

char* strncpy(char* target, const char* text, size_t count) {
    size_t length = 0;
    for (; length < count && text[length] != '\0'; length++) target[length] = text[length];
    memset(target + length, 0, count - length);
    return target;
}

char* strcpy(char* target, const char* text) { return memcpy(target, text, strlen(text) + 1); }

int fprintf(FILE* file, const char* format, ...) { return 0; }

int snprintf(char* text, size_t size, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    page_format(text, size, format, arguments);
    va_end(arguments);
    return (int)strlen(text);
}

// ---------------------------------------------------------------------------------------------------- environments

static void attach(Env* env, struct Arrays* rows, int game) {
    int agent = game * num_agents;
    env->observations = (void*)(rows->observations + agent * WEB_POLICY_OBSERVATION);
    env->actions = (void*)(rows->actions + agent * WEB_POLICY_ACTION);
    env->rewards = rows->rewards + agent;
    env->terminals = rows->terminals + agent;
    env->truncations = rows->truncations + agent;
#ifdef ENV_ACTION_MASKS
    env->action_masks = rows->action_masks + agent * WEB_POLICY_CHOICES;
#endif
#ifdef ENV_TURNS
    env->masks = rows->masks + agent;
#endif
}

static void keep_rows(void* kept, const void* rows, size_t size, int game) {
    size_t part = size / ROWS * (size_t)num_agents, begin = part * (size_t)game;
    memcpy((char*)kept + begin, (const char*)rows + begin, part);
}

#define KEEP(member) keep_rows(earlier.member, arrays.member, sizeof(arrays.member), game)

// Keeps a game as it is, in arrays of its own.
static void remember(int game) {
    memcpy(&befores[game], &envs[game], sizeof(Env));
    attach(&befores[game], &earlier, game);
    KEEP(observations);
    KEEP(rewards);
    KEEP(terminals);
    KEEP(truncations);
#ifdef ENV_ACTION_MASKS
    KEEP(action_masks);
#endif
#ifdef ENV_TURNS
    KEEP(masks);
#endif
}

// Makes all environments: those of a game for several players with 1 agent against its bot, or with 2 or more agents;
// for others, `players` is 0. Returns 0, or -1 where they are not those of the policy.
int EXPORT(open)(int players) {
    for (PyObject* setting = settings; setting->name != NULL; setting++) {
        if (players > 0 && strcmp(setting->name, "agents") == 0) setting->value = players;
    }
#ifdef MY_SHARED
    if (my_shared(&shared, NULL, settings) < 0) return -1;
#endif
    memset(envs, 0, sizeof(envs));
    for (int game = 0; game < GAMES; game++) {
        Env* env = &envs[game];
#ifdef MY_SHARED
        env->shared = &shared;
#endif
        if (my_init(env, NULL, settings) < 0) return -1;
        PufferLayout layout = c_layout(env);
        if (layout.num_agents > AGENTS || layout.observation_size != WEB_POLICY_OBSERVATION) return -1;
        num_agents = layout.num_agents;
        attach(env, &arrays, game);
    }
    return 0;
}

// Begins a game with the random numbers of environment `index` in a vector of that seed.
void EXPORT(reset)(int game, uint64_t seed, uint64_t index) {
    Env* env = &envs[game];
    env->rng = rng_seed(seed, index);
    memset(&env->log, 0, sizeof(env->log));
    for (int agent = game * num_agents; agent < (game + 1) * num_agents; agent++) {
        arrays.rewards[agent] = 0.0f;
        arrays.terminals[agent] = arrays.truncations[agent] = 0;
        web_policy_forget(&policy, agent);
    }
    c_reset(env);
#ifdef ENV_TURNS
    for (int agent = game * num_agents; agent < (game + 1) * num_agents; agent++) {
        is_pending[agent] = !arrays.masks[agent];
    }
#endif
    memset(&clients[game], 0, sizeof(Client));
    has_moved[game] = false;
    picture = c_open_client(&clients[game], env);
}

// Steps the first games by the actions in their rows; the way from here can be drawn where this moment is kept.
void EXPORT(step)(int games, int is_kept) {
    for (int game = 0; game < games; game++) {
        if (is_kept) remember(game);
        c_step(&envs[game]);
        has_moved[game] = is_kept != 0;
    }
    for (int agent = 0; agent < games * num_agents; agent++) {
        bool begins = arrays.terminals[agent] | arrays.truncations[agent];
#ifdef ENV_TURNS
        begins |= is_pending[agent];
        is_pending[agent] = begins && !arrays.masks[agent];
#endif
        if (begins) web_policy_forget(&policy, agent);
    }
}

// ---------------------------------------------------------------------------------------------------------- policy

// Begins anew with every agent; the seed is that of drawn actions.
void EXPORT(begin)(uint64_t seed) { web_policy_begin(&policy, seed); }

// Writes the actions of the first games.
void EXPORT(act)(int games, int is_sampled) {
#ifdef ENV_ACTION_MASKS
    policy.masks = arrays.action_masks;
#endif
    web_policy_act(&policy, arrays.observations, games * num_agents, arrays.actions, is_sampled != 0);
}

// ---------------------------------------------------------------------------------------------------------- picture

// Has the page draw the letters of lines that high, once for each size; none where it cannot.
JS("page", "glyphs") const Glyph* page_glyphs(int pixels);

static Font font_of(int pixels) {
    const Glyph* glyphs = page_glyphs(pixels < 4 ? 4 : pixels > 400 ? 400 : pixels);
    return (Font){pixels, glyphs == NULL ? 0 : SCREEN_NUM_GLYPHS, glyphs};
}

// Makes the screen that large, and empty; returns false where it would be too large.
int EXPORT(size_screen)(int width, int height) {
    if (width < 1 || height < 1 || width > SCREEN_MAX_PIXELS / height) return 0;
    screen.width = width;
    screen.height = height;
    fill_span(screen.pixels, width * height, 0xFF181806u);  // PUFFER_BACKGROUND
    return 1;
}

static int within(float place, int high) { return place<0.0f ? 0 : place>(float) high ? high : (int)place; }

// Draws a game with its left top corner at (x, y); progress is how much of the last step is over, 0 to 1.
void EXPORT(draw)(int game, float x, float y, float scale, float progress) {
    screen.left = within(x, screen.width);
    screen.top = within(y, screen.height);
    screen.right = within(ceilf(x + scale * (float)picture.width), screen.width);
    screen.bottom = within(ceilf(y + scale * (float)picture.height), screen.height);
    for (int row = screen.top; row < screen.bottom; row++) {
        fill_span(screen.pixels + row * screen.width + screen.left, screen.right - screen.left, 0xFF181806u);
    }
    screen.x = x;
    screen.y = y;
    screen.scale = scale;
    puffer_view = (PufferView){x, y, scale, font_of};
    Env before = befores[game];
    before.actions = envs[game].actions;  // those that led from there to here
    bool is_between = has_moved[game];
    c_render(&clients[game], is_between ? &before : &envs[game], &envs[game], is_between ? progress : 1.0f);
}

// ------------------------------------------------------------------------------------------------------ what there is

#define NAME(name) #name " "
#define COUNT(name) +1

enum { NUM_LOGGED = LOG_FIELDS(COUNT) };

// What the page reads, by number.
const void* EXPORT(address)(int which) {
#ifdef ENV_TURNS
    const void* turns = arrays.masks;
#else
    const void* turns = NULL;
#endif
    const void* addresses[] = {arrays.observations, arrays.actions,      arrays.rewards, arrays.terminals,
                               arrays.truncations,  screen.pixels,       policy.logits,  policy.values,
                               picture.title,       LOG_FIELDS(NAME) "", web_weights,    turns};
    return addresses[which];
}

int EXPORT(number)(int which) {
    int numbers[] = {GAMES,
                     num_agents,
                     WEB_POLICY_OBSERVATION,
                     WEB_POLICY_ACTION,
                     WEB_POLICY_LOGITS,
                     (int)(sizeof(policy.logits[0]) / sizeof(float)),
                     SCREEN_MAX_PIXELS,
                     picture.width,
                     picture.height,
                     NUM_LOGGED};
    return numbers[which];
}

float EXPORT(steps_per_second)(void) { return picture.steps_per_second; }

// The sums over a game's finished episodes, and their count behind them.
float* EXPORT(log_of)(int game) { return (float*)&envs[game].log; }
