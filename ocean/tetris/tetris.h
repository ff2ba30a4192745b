// tetris.h - the falling pieces of the modern guideline: SRS, bags of seven, hold, three previews, lock delay.
//
// The field is 10 columns by 20 rows, with four hidden rows and a ceiling above. A step is a tenth of a second: an
// action, then gravity. A piece appears in the two rows above the field and falls one row at once; it then falls by the
// guideline's speed of the level, which is one higher for every ten lines, up to 15. On the ground it stays for 5
// steps. A move or a turn there begins them anew, up to 15 times before it comes to lie deeper. Hold swaps the piece
// for the held one, once for each that locks.
//
// Observation uint8[409], each 0 or 1: the field's locked cells row by row from the top, and one of each: kind 7
// (I O T S Z J L), rotation 4, column of its box 11 (-2 first), rows left to fall 22; of the place where a hard drop
// would take it the row of the lowest cell 24, the lines that would be full 5, the gaps 8 (7 or more the last),
// which are the empty cells below it down to the next locked ones, and how much rougher the field would be 16 (fives
// from -25 or less to 45 or more); steps on the ground 5, level 15, held kind 7 (none while nothing is held), whether
// it may be held 1; by how many rows each column is higher than the one before, 9 x 7 (-3 or less first, 3 or more
// last); and the next three kinds 3 x 7.
//
// Action: 0 nothing, 1 left, 2 right, 3 turn clockwise, 4 soft drop (a row), 5 hard drop, 6 hold; anything else
// nothing. Reward: 0.1, 0.3, 0.5, 1 for one to four lines at once, 0.001 for each row of a soft drop, 0.002 of a hard
// one; where it is shaped, for each piece that locks 0.05, 0.002 for each row that it lies below the tenth or its
// negative above, and -0.004 times how much rougher the field is than before. Roughness is 3 for each edge between a
// locked and an empty cell along a row beyond two, 9 along a column beyond one, 8 for an empty cell below a locked one;
// and for an open cell between two locked ones 3, 6 if one like it is above it, 9 if two are. Terminal when a piece
// locks above the field whole or a new one has no room; truncation after 10,000 steps. score is the lines, perf their
// share of the 150 of the guideline's marathon, at most 1.
//
// Columns count from the left, rows from the floor. A piece lies in a box of four by four, whose left bottom cell is
// its place; parts of the box may be outside.
#pragma once

#include "puffer_bits.h"

enum { TETRIS_NOTHING, TETRIS_LEFT, TETRIS_RIGHT, TETRIS_TURN, TETRIS_SOFT, TETRIS_HARD, TETRIS_HOLD };
enum { TETRIS_I, TETRIS_O, TETRIS_T, TETRIS_S, TETRIS_Z, TETRIS_J, TETRIS_L, TETRIS_KINDS, TETRIS_NONE = TETRIS_KINDS };
enum { TETRIS_WIDTH = 10, TETRIS_HEIGHT = 20, TETRIS_CEILING = 24, TETRIS_CELLS = TETRIS_WIDTH * TETRIS_HEIGHT };
enum { TETRIS_NEXT = 3, TETRIS_ROTATIONS = 4, TETRIS_MIN_COLUMN = -2, TETRIS_MAX_COLUMN = 8, TETRIS_MAX_FALL = 21 };
enum { TETRIS_MAX_LINES = 4, TETRIS_MAX_GAPS = 7, TETRIS_MAX_STEP = 3, TETRIS_STEPS = 2 * TETRIS_MAX_STEP + 1 };
enum { TETRIS_ROUGHER = 16, TETRIS_ROUGHER_WIDTH = 5, TETRIS_LEAST_ROUGHER = -25 };
enum { TETRIS_LOCK_STEPS = 5, TETRIS_LOCK_MOVES = 15, TETRIS_MAX_STEPS = 10000 };
enum {
    TETRIS_MAX_LEVEL = 15,
    TETRIS_LINES_PER_LEVEL = 10,
    TETRIS_MARATHON = TETRIS_MAX_LEVEL * TETRIS_LINES_PER_LEVEL
};

// Where each part of the observation begins.
enum {
    TETRIS_LOCKED = 0,
    TETRIS_KIND = TETRIS_LOCKED + TETRIS_CELLS,
    TETRIS_ROTATION = TETRIS_KIND + TETRIS_KINDS,
    TETRIS_COLUMN = TETRIS_ROTATION + TETRIS_ROTATIONS,
    TETRIS_FALL = TETRIS_COLUMN + TETRIS_MAX_COLUMN - TETRIS_MIN_COLUMN + 1,
    TETRIS_LANDING = TETRIS_FALL + TETRIS_MAX_FALL + 1,
    TETRIS_LINES = TETRIS_LANDING + TETRIS_CEILING,
    TETRIS_GAPS = TETRIS_LINES + TETRIS_MAX_LINES + 1,
    TETRIS_LANDING_ROUGHER = TETRIS_GAPS + TETRIS_MAX_GAPS + 1,
    TETRIS_GROUND = TETRIS_LANDING_ROUGHER + TETRIS_ROUGHER,
    TETRIS_LEVEL = TETRIS_GROUND + TETRIS_LOCK_STEPS,
    TETRIS_HELD = TETRIS_LEVEL + TETRIS_MAX_LEVEL,
    TETRIS_MAY_HOLD = TETRIS_HELD + TETRIS_KINDS,
    TETRIS_SURFACE = TETRIS_MAY_HOLD + 1,
    TETRIS_QUEUE = TETRIS_SURFACE + (TETRIS_WIDTH - 1) * TETRIS_STEPS,
    TETRIS_OBSERVATION_SIZE = TETRIS_QUEUE + TETRIS_NEXT * TETRIS_KINDS
};

// A row is 16 bits: three of the left wall, the field's columns, three of the right wall. Four solid rows lie below the
// floor and four above the ceiling, so that no box of a piece, wherever it is tried, leaves the array.
enum { TETRIS_WALL = 3, TETRIS_SOLID_ROWS = 4, TETRIS_ROWS = TETRIS_SOLID_ROWS + TETRIS_CEILING + TETRIS_SOLID_ROWS };
enum { TETRIS_EMPTY_ROW = 0xE007, TETRIS_FULL_ROW = 0xFFFF, TETRIS_SEAMS = 0x1FFC };

typedef struct {
    uint64_t mask;       // four rows of 16 bits, the lowest first, as they lie in memory
    int8_t cells[4];     // column - 10 * row: what they are away from the box's place in a plane of the observation
    int8_t bottom, top;  // rows of the lowest and the highest cell
} TetrisShape;

#define TETRIS_BIT(column, row) (1ull << (16 * (row) + (column)))
#define TETRIS_CELL(column, row) ((column) - TETRIS_WIDTH * (row))
#define TETRIS_SHAPE(x0, y0, x1, y1, x2, y2, x3, y3)                                       \
    {TETRIS_BIT(x0, y0) | TETRIS_BIT(x1, y1) | TETRIS_BIT(x2, y2) | TETRIS_BIT(x3, y3),    \
     {TETRIS_CELL(x0, y0), TETRIS_CELL(x1, y1), TETRIS_CELL(x2, y2), TETRIS_CELL(x3, y3)}, \
     y0,                                                                                   \
     y3}

// By kind and rotation, clockwise from the one in which it appears: columns and rows in the box, the lowest cell first,
// the highest last.
// clang-format off
PUFFER_TABLE TetrisShape TETRIS_SHAPES[TETRIS_KINDS][TETRIS_ROTATIONS] = {
    {TETRIS_SHAPE(0, 2, 1, 2, 2, 2, 3, 2), TETRIS_SHAPE(2, 0, 2, 1, 2, 2, 2, 3),
     TETRIS_SHAPE(0, 1, 1, 1, 2, 1, 3, 1), TETRIS_SHAPE(1, 0, 1, 1, 1, 2, 1, 3)},
    {TETRIS_SHAPE(1, 1, 2, 1, 1, 2, 2, 2), TETRIS_SHAPE(1, 1, 2, 1, 1, 2, 2, 2),
     TETRIS_SHAPE(1, 1, 2, 1, 1, 2, 2, 2), TETRIS_SHAPE(1, 1, 2, 1, 1, 2, 2, 2)},
    {TETRIS_SHAPE(0, 1, 1, 1, 2, 1, 1, 2), TETRIS_SHAPE(1, 0, 1, 1, 2, 1, 1, 2),
     TETRIS_SHAPE(1, 0, 0, 1, 1, 1, 2, 1), TETRIS_SHAPE(1, 0, 0, 1, 1, 1, 1, 2)},
    {TETRIS_SHAPE(0, 1, 1, 1, 1, 2, 2, 2), TETRIS_SHAPE(2, 0, 1, 1, 2, 1, 1, 2),
     TETRIS_SHAPE(0, 0, 1, 0, 1, 1, 2, 1), TETRIS_SHAPE(1, 0, 0, 1, 1, 1, 0, 2)},
    {TETRIS_SHAPE(1, 1, 2, 1, 0, 2, 1, 2), TETRIS_SHAPE(1, 0, 1, 1, 2, 1, 2, 2),
     TETRIS_SHAPE(1, 0, 2, 0, 0, 1, 1, 1), TETRIS_SHAPE(0, 0, 0, 1, 1, 1, 1, 2)},
    {TETRIS_SHAPE(0, 1, 1, 1, 2, 1, 0, 2), TETRIS_SHAPE(1, 0, 1, 1, 1, 2, 2, 2),
     TETRIS_SHAPE(2, 0, 0, 1, 1, 1, 2, 1), TETRIS_SHAPE(0, 0, 1, 0, 1, 1, 1, 2)},
    {TETRIS_SHAPE(0, 1, 1, 1, 2, 1, 2, 2), TETRIS_SHAPE(1, 0, 2, 0, 1, 1, 1, 2),
     TETRIS_SHAPE(0, 0, 0, 1, 1, 1, 2, 1), TETRIS_SHAPE(1, 0, 1, 1, 0, 2, 1, 2)},
};
// clang-format on

// SRS: where a piece is tried in turn as it turns clockwise out of a rotation, {right, up}. Those of I, and of the
// rest; O is at its first place always.
enum { TETRIS_KICKS = 5 };
PUFFER_TABLE int8_t TETRIS_KICKS_OF_I[TETRIS_ROTATIONS][TETRIS_KICKS][2] = {
    {{0, 0}, {-2, 0}, {1, 0}, {-2, -1}, {1, 2}},
    {{0, 0}, {-1, 0}, {2, 0}, {-1, 2}, {2, -1}},
    {{0, 0}, {2, 0}, {-1, 0}, {2, 1}, {-1, -2}},
    {{0, 0}, {1, 0}, {-2, 0}, {1, -2}, {-2, 1}},
};
PUFFER_TABLE int8_t TETRIS_KICKS_OF_OTHERS[TETRIS_ROTATIONS][TETRIS_KICKS][2] = {
    {{0, 0}, {-1, 0}, {-1, 1}, {0, -2}, {-1, -2}},
    {{0, 0}, {1, 0}, {1, -1}, {0, 2}, {1, 2}},
    {{0, 0}, {1, 0}, {1, 1}, {0, -2}, {1, -2}},
    {{0, 0}, {-1, 0}, {-1, -1}, {0, 2}, {-1, 2}},
};

// Thousandths of a row in a step, by level - 1: a row takes (0.8 - 0.007 * (level - 1)) ^ (level - 1) seconds.
enum { TETRIS_ROW = 1000 };
PUFFER_TABLE int16_t TETRIS_GRAVITY[TETRIS_MAX_LEVEL] = {100,  126,  162,  212,  282,  382,  527,  742,
                                                         1065, 1557, 2327, 3544, 5511, 8740, 14163};

PUFFER_TABLE float TETRIS_REWARDS[TETRIS_MAX_LINES + 1] = {0.0f, 0.1f, 0.3f, 0.5f, 1.0f};  // by lines at once
#define TETRIS_POINT_REWARD (0.001f)

// What makes a field hard to fill, by how much, and the reward of one unit less of it, where shaped. The weights are
// those of Pierre Dellacherie's player (Fahey 2003, "Tetris AI").
enum { TETRIS_ROW_EDGES = 3, TETRIS_COLUMN_EDGES = 9, TETRIS_COVERED = 8, TETRIS_WELLS = 3 };
#define TETRIS_PIECE_REWARD (0.05f)        // where shaped: for a piece that locks, so that waiting does not pay
#define TETRIS_LOW_REWARD (0.002f)         // for each row that it lies below the middle of the field
#define TETRIS_ROUGHNESS_REWARD (-0.004f)  // so much that a step more for a better place pays

typedef struct {
    uint8_t* observations;        // [409]  these six are borrowed from the caller
    const void* actions;          // int32_t[1]
    float* rewards;               // [1]
    uint8_t* terminals;           // [1]
    uint8_t* truncations;         // [1]
    uint8_t* final_observations;  // [409] or NULL
    Rng rng;
    uint16_t rows[TETRIS_ROWS];          // of locked cells, the floor's solid ones first
    int8_t kind, rotation, column, row;  // of the piece
    int8_t landing_row;                  // where a hard drop would take it
    int8_t landing_lines, landing_gaps;  // full lines and gaps that there would be
    int8_t landing_rougher;              // how much rougher the field would be, as shown
    int8_t deepest_row;                  // that it has come to
    int8_t held;                         // kind, or TETRIS_NONE
    bool may_hold;
    bool is_topped_out;                    // within a step only
    int8_t height;                         // rows up to the highest locked cell
    int16_t roughness;                     // of the field
    int8_t steps_shown[TETRIS_WIDTH - 1];  // from column to column
    int8_t ground_steps, ground_moves;     // since it lies as deep as this
    uint8_t next[TETRIS_NEXT];             // kinds
    uint8_t bag;                           // bit 1 << kind: not drawn yet
    int16_t fall;                          // thousandths of a row that it has fallen towards the next
    int16_t starting_level;
    bool shaped;
    int lines;
    int steps;
    float episode_return;
    Log log;                                      // summed at episode end, cleared by the reader
    int8_t kinds[TETRIS_CEILING * TETRIS_WIDTH];  // of the locked cells, row by row from the ceiling: their colours
} Tetris;

PUFFER_FN PufferLayout c_layout(const Tetris* env) {
    (void)env;
    return puffer_layout(1, TETRIS_OBSERVATION_SIZE, PUFFER_UINT8, 1, PUFFER_INT32);
}

PUFFER_FN int tetris_level(const Tetris* env) {
    int level = env->starting_level + env->lines / TETRIS_LINES_PER_LEVEL;
    return level < TETRIS_MAX_LEVEL ? level : TETRIS_MAX_LEVEL;
}

// ---------------------------------------------------------------------------------------------------------- the field

PUFFER_FN int8_t tetris_shown_step(int step) {
    if (step > TETRIS_MAX_STEP) return TETRIS_MAX_STEP;
    return (int8_t)(step > -TETRIS_MAX_STEP ? step : -TETRIS_MAX_STEP);
}

typedef struct {
    int roughness;
    int8_t steps[TETRIS_WIDTH - 1];
} TetrisSurvey;

// Finds the steps from column to column of a field's rows up to a height, and how hard it is to fill: edges between
// locked and empty cells along its rows and its columns, empty cells below locked ones, and open cells between two
// locked ones, those deeper in a well up to three times.
PUFFER_FN TetrisSurvey tetris_survey(const uint16_t* rows, int height) {
    int8_t heights[TETRIS_WIDTH] = {0};
    uint32_t above = TETRIS_EMPTY_ROW, covered = TETRIS_EMPTY_ROW, well = 0, deep_well = 0;
    int row_edges = 0, column_edges = 0, gaps = 0, wells = 0;
    for (int row = height - 1; row >= 0; row--) {
        uint32_t cells = rows[row], open = ~(cells | covered) & cells << 1 & cells >> 1;
        uint32_t highest = cells & ~covered;
        deep_well &= open;
        if (open != 0) wells += bits_count(open) + bits_count(open & well) + bits_count(deep_well);
        deep_well = open & well;
        well = open;
        row_edges += bits_count((cells ^ cells >> 1) & TETRIS_SEAMS) - 2;  // of an empty row there are two
        column_edges += bits_count(cells ^ above);
        for (; highest != 0; highest &= highest - 1) heights[bits_lowest(highest) - TETRIS_WALL] = (int8_t)(row + 1);
        covered |= cells;
        gaps += bits_count(covered & ~cells);
        above = cells;
    }
    column_edges += bits_count(TETRIS_FULL_ROW ^ above) - TETRIS_WIDTH;  // of an empty field there are ten
    TetrisSurvey survey;
    survey.roughness = TETRIS_ROW_EDGES * row_edges + TETRIS_COLUMN_EDGES * column_edges + TETRIS_COVERED * gaps +
                       TETRIS_WELLS * wells;
    for (int i = 0; i < TETRIS_WIDTH - 1; i++) survey.steps[i] = tetris_shown_step(heights[i + 1] - heights[i]);
    return survey;
}

// ----------------------------------------------------------------------------------------------------------- the piece

PUFFER_FN const TetrisShape* tetris_shape(const Tetris* env) { return &TETRIS_SHAPES[env->kind][env->rotation]; }

// A shape in a column, four rows to be compared with four of the field's.
PUFFER_FN uint64_t tetris_mask(const TetrisShape* shape, int column) { return shape->mask << (column + TETRIS_WALL); }

PUFFER_FN bool tetris_overlaps(const Tetris* env, uint64_t mask, int row) {
    uint64_t rows;
    memcpy(&rows, &env->rows[row + TETRIS_SOLID_ROWS], sizeof(rows));
    return (rows & mask) != 0;
}

PUFFER_FN int tetris_landing_row(const Tetris* env) {
    const TetrisShape* shape = tetris_shape(env);
    uint64_t mask = tetris_mask(shape, env->column);
    int free_row = env->height - shape->bottom;  // down to here nothing is in the way
    int row = env->row < free_row ? env->row : free_row;
    while (!tetris_overlaps(env, mask, row - 1)) row--;
    return row;
}

// How much rougher a hard drop would leave the field, in the steps in which it is shown.
PUFFER_FN int8_t tetris_landing_rougher(const Tetris* env) {
    const TetrisShape* shape = tetris_shape(env);
    uint16_t rows[TETRIS_ROWS];
    uint64_t piece;
    memcpy(rows, env->rows, sizeof(rows));
    memcpy(&piece, &rows[env->landing_row + TETRIS_SOLID_ROWS], sizeof(piece));
    piece |= tetris_mask(shape, env->column);
    memcpy(&rows[env->landing_row + TETRIS_SOLID_ROWS], &piece, sizeof(piece));
    int top = env->landing_row + shape->top + 1, height = top > env->height ? top : env->height;
    if (env->landing_lines > 0) {
        int to = TETRIS_SOLID_ROWS;
        for (int from = TETRIS_SOLID_ROWS; from < height + TETRIS_SOLID_ROWS; from++) {
            if (rows[from] != TETRIS_FULL_ROW) rows[to++] = rows[from];
        }
        height = to - TETRIS_SOLID_ROWS;
    }
    int rougher = tetris_survey(rows + TETRIS_SOLID_ROWS, height).roughness - env->roughness - TETRIS_LEAST_ROUGHER;
    rougher = rougher > 0 ? rougher / TETRIS_ROUGHER_WIDTH : 0;
    return (int8_t)(rougher < TETRIS_ROUGHER ? rougher : TETRIS_ROUGHER - 1);
}

// Finds where a hard drop would take the piece, and what it would do there.
PUFFER_FN void tetris_look_down(Tetris* env) {
    const TetrisShape* shape = tetris_shape(env);
    uint64_t mask = tetris_mask(shape, env->column);
    env->landing_row = (int8_t)tetris_landing_row(env);
    const uint16_t* rows = env->rows + TETRIS_SOLID_ROWS + env->landing_row;
    int lines = 0, gaps = 0;
    uint32_t above = 0;  // columns in which the piece or a gap is in the row above
    for (int row = shape->top; row >= shape->bottom || above != 0; row--) {
        uint32_t piece = row >= 0 ? (uint32_t)(mask >> 16 * row & TETRIS_FULL_ROW) : 0;
        uint32_t filled = rows[row] | piece, gap = above & ~filled;
        lines += filled == TETRIS_FULL_ROW && piece != 0;
        gaps += bits_count(gap);
        above = piece | gap;
    }
    env->landing_lines = (int8_t)lines;
    env->landing_gaps = (int8_t)gaps;
    env->landing_rougher = tetris_landing_rougher(env);
}

// Puts the piece elsewhere if there is room, and says whether there was.
PUFFER_FN bool tetris_try(Tetris* env, int rotation, int column, int row) {
    if (tetris_overlaps(env, tetris_mask(&TETRIS_SHAPES[env->kind][rotation], column), row)) return false;
    env->rotation = (int8_t)rotation;
    env->column = (int8_t)column;
    env->row = (int8_t)row;
    tetris_look_down(env);
    if (env->ground_steps > 0 && env->ground_moves < TETRIS_LOCK_MOVES) {
        env->ground_moves += 1;
        env->ground_steps = 0;
    }
    return true;
}

PUFFER_FN void tetris_turn(Tetris* env) {
    const int8_t (*kicks)[2] = (env->kind == TETRIS_I ? TETRIS_KICKS_OF_I : TETRIS_KICKS_OF_OTHERS)[env->rotation];
    int rotation = (env->rotation + 1) % TETRIS_ROTATIONS;
    for (int i = 0; i < TETRIS_KICKS; i++) {
        if (tetris_try(env, rotation, env->column + kicks[i][0], env->row + kicks[i][1])) return;
    }
}

// Lets the piece fall by up to `most` rows, returns by how many; deeper than ever, it has all its time on the ground
// again.
PUFFER_FN int tetris_sink(Tetris* env, int most) {
    int left = env->row - env->landing_row, rows = most < left ? most : left;
    env->row = (int8_t)(env->row - rows);
    if (env->row < env->deepest_row) {
        env->deepest_row = env->row;
        env->ground_steps = env->ground_moves = 0;
    }
    return rows;
}

// -------------------------------------------------------------------------------------------------------- observations

// Writes into a plane of the observation the piece's cells as they are with its box in `row`; hidden rows are left out.
PUFFER_FN void tetris_write_cells(const Tetris* env, int plane, int row, uint8_t value) {
    const TetrisShape* shape = tetris_shape(env);
    int place = (TETRIS_HEIGHT - 1 - row) * TETRIS_WIDTH + env->column;
    for (int i = 0; i < 4; i++) {
        if (place + shape->cells[i] >= 0) env->observations[plane + place + shape->cells[i]] = value;
    }
}

// Sets or clears all that the observation says about the piece.
PUFFER_FN void tetris_mark_piece(const Tetris* env, uint8_t value) {
    int fall = env->row - env->landing_row;
    int gaps = env->landing_gaps;
    if (gaps > TETRIS_MAX_GAPS) gaps = TETRIS_MAX_GAPS;
    env->observations[TETRIS_KIND + env->kind] = value;
    env->observations[TETRIS_ROTATION + env->rotation] = value;
    env->observations[TETRIS_COLUMN + env->column - TETRIS_MIN_COLUMN] = value;
    env->observations[TETRIS_FALL + (fall < TETRIS_MAX_FALL ? fall : TETRIS_MAX_FALL)] = value;
    env->observations[TETRIS_LANDING + env->landing_row + tetris_shape(env)->bottom] = value;
    env->observations[TETRIS_LINES + env->landing_lines] = value;
    env->observations[TETRIS_GAPS + gaps] = value;
    env->observations[TETRIS_LANDING_ROUGHER + env->landing_rougher] = value;
    env->observations[TETRIS_GROUND + env->ground_steps] = value;
}

// Sets or clears what it says about the pieces to come.
PUFFER_FN void tetris_mark_queue(const Tetris* env, uint8_t value) {
    if (env->held != TETRIS_NONE) env->observations[TETRIS_HELD + env->held] = value;
    for (int i = 0; i < TETRIS_NEXT; i++) {
        env->observations[TETRIS_QUEUE + i * TETRIS_KINDS + env->next[i]] = value;
    }
    env->observations[TETRIS_MAY_HOLD] = env->may_hold;
}

PUFFER_FN void tetris_write_rows(const Tetris* env, int from, int to) {
    for (int row = from; row < to && row < TETRIS_HEIGHT; row++) {
        uint8_t* cells = env->observations + TETRIS_LOCKED + (TETRIS_HEIGHT - 1 - row) * TETRIS_WIDTH;
        int bits = env->rows[row + TETRIS_SOLID_ROWS] >> TETRIS_WALL;
        for (int column = 0; column < TETRIS_WIDTH; column++) cells[column] = (uint8_t)(bits >> column & 1);
    }
}

// Shows by how many rows a column is higher than the one before.
PUFFER_FN void tetris_show_step(Tetris* env, int index, int8_t step) {
    uint8_t* steps = env->observations + TETRIS_SURFACE + index * TETRIS_STEPS + TETRIS_MAX_STEP;
    if (step == env->steps_shown[index]) return;
    steps[env->steps_shown[index]] = 0;
    steps[step] = 1;
    env->steps_shown[index] = step;
}

// ---------------------------------------------------------------------------------------------------- the next piece

// Draws one of the kinds left in the bag; an empty one is filled with all seven.
PUFFER_FN int tetris_draw(Tetris* env) {
    if (env->bag == 0) env->bag = (1 << TETRIS_KINDS) - 1;
    int left = 0;
    for (int kind = 0; kind < TETRIS_KINDS; kind++) left += env->bag >> kind & 1;
    int skip = rng_below(&env->rng, left), kind = 0;
    while (skip > 0 || (env->bag >> kind & 1) == 0) skip -= env->bag >> kind++ & 1;
    env->bag = (uint8_t)(env->bag & ~(1 << kind));
    return kind;
}

PUFFER_FN int tetris_take_next(Tetris* env) {
    int kind = env->next[0];
    for (int i = 1; i < TETRIS_NEXT; i++) env->next[i - 1] = env->next[i];
    env->next[TETRIS_NEXT - 1] = (uint8_t)tetris_draw(env);
    return kind;
}

// A piece appears, and falls a row at once where it can.
PUFFER_FN void tetris_spawn(Tetris* env, int kind) {
    env->kind = (int8_t)kind;
    env->rotation = 0;
    env->column = 3;
    env->row = kind == TETRIS_I ? TETRIS_HEIGHT - 2 : TETRIS_HEIGHT - 1;
    env->deepest_row = env->row;
    env->ground_steps = env->ground_moves = 0;
    env->fall = 0;
    env->is_topped_out = tetris_overlaps(env, tetris_mask(tetris_shape(env), env->column), env->row);
    tetris_look_down(env);
    tetris_sink(env, env->is_topped_out ? 0 : 1);
}

PUFFER_FN void tetris_hold(Tetris* env) {
    if (!env->may_hold) return;
    tetris_mark_queue(env, 0);
    int kind = env->held != TETRIS_NONE ? env->held : tetris_take_next(env);
    env->held = env->kind;
    env->may_hold = false;
    tetris_spawn(env, kind);
    tetris_mark_queue(env, 1);
}

// -------------------------------------------------------------------------------------------------------- lines, ends

// Looks at the field that the piece has left; returns the reward for it.
PUFFER_FN float tetris_judge(Tetris* env) {
    int before = env->roughness, lowest = env->row + tetris_shape(env)->bottom;
    TetrisSurvey survey = tetris_survey(env->rows + TETRIS_SOLID_ROWS, env->height);
    env->roughness = (int16_t)survey.roughness;
    for (int i = 0; i < TETRIS_WIDTH - 1; i++) tetris_show_step(env, i, survey.steps[i]);
    return TETRIS_PIECE_REWARD + TETRIS_LOW_REWARD * (float)(TETRIS_HEIGHT / 2 - lowest) +
           TETRIS_ROUGHNESS_REWARD * (float)(survey.roughness - before);
}

PUFFER_FN int8_t* tetris_kinds(Tetris* env, int row) { return env->kinds + (TETRIS_CEILING - 1 - row) * TETRIS_WIDTH; }

// Takes out the full rows among those that the piece has come to lie in; returns their number.
PUFFER_FN int tetris_clear_lines(Tetris* env) {
    uint16_t* rows = env->rows + TETRIS_SOLID_ROWS;
    int lowest = env->row + tetris_shape(env)->bottom, highest = env->row + tetris_shape(env)->top;
    while (lowest <= highest && rows[lowest] != TETRIS_FULL_ROW) lowest++;
    if (lowest > highest) return 0;
    int to = lowest, height = env->height;
    for (int from = lowest; from < height; from++) {
        if (rows[from] == TETRIS_FULL_ROW) continue;
        rows[to] = rows[from];
        if (to != from) memcpy(tetris_kinds(env, to), tetris_kinds(env, from), TETRIS_WIDTH);
        to++;
    }
    for (int row = to; row < height; row++) rows[row] = TETRIS_EMPTY_ROW;
    env->height = (int8_t)to;
    tetris_write_rows(env, lowest, height);
    return height - to;
}

// The piece becomes part of the field; lines are taken out and the next piece appears.
PUFFER_FN void tetris_lock(Tetris* env) {
    const TetrisShape* shape = tetris_shape(env);
    uint64_t rows, mask = tetris_mask(shape, env->column);
    memcpy(&rows, &env->rows[env->row + TETRIS_SOLID_ROWS], sizeof(rows));
    rows |= mask;
    memcpy(&env->rows[env->row + TETRIS_SOLID_ROWS], &rows, sizeof(rows));
    tetris_write_cells(env, TETRIS_LOCKED, env->row, 1);
    int place = (TETRIS_CEILING - 1 - env->row) * TETRIS_WIDTH + env->column;  // its corner may lie below the field
    for (int i = 0; i < 4; i++) env->kinds[place + shape->cells[i]] = env->kind;
    int height = env->row + shape->top + 1;
    if (height > env->height) env->height = (int8_t)height;
    env->is_topped_out = env->row + shape->bottom >= TETRIS_HEIGHT;
    if (env->is_topped_out) return;

    int lines = tetris_clear_lines(env);
    float judgement = tetris_judge(env);
    if (env->shaped) env->rewards[0] += judgement;
    env->observations[TETRIS_LEVEL + tetris_level(env) - 1] = 0;
    env->lines += lines;
    env->observations[TETRIS_LEVEL + tetris_level(env) - 1] = 1;
    env->rewards[0] += TETRIS_REWARDS[lines];
    tetris_mark_queue(env, 0);
    env->may_hold = true;
    tetris_spawn(env, tetris_take_next(env));
    tetris_mark_queue(env, 1);
}

PUFFER_FN void c_reset(Tetris* env) {
    for (int i = 0; i < TETRIS_ROWS; i++) {
        bool is_solid = i < TETRIS_SOLID_ROWS || i >= TETRIS_SOLID_ROWS + TETRIS_CEILING;
        env->rows[i] = is_solid ? TETRIS_FULL_ROW : TETRIS_EMPTY_ROW;
    }
    memset(env->kinds, 0, sizeof(env->kinds));
    env->height = env->roughness = 0;
    env->lines = env->steps = 0;
    env->episode_return = 0.0f;
    env->bag = 0;
    for (int i = 0; i < TETRIS_NEXT; i++) env->next[i] = (uint8_t)tetris_draw(env);
    env->held = TETRIS_NONE;
    env->may_hold = true;
    tetris_spawn(env, tetris_take_next(env));
    memset(env->steps_shown, 0, sizeof(env->steps_shown));
    memset(env->observations, 0, TETRIS_OBSERVATION_SIZE);
    for (int i = 0; i < TETRIS_WIDTH - 1; i++)
        env->observations[TETRIS_SURFACE + i * TETRIS_STEPS + TETRIS_MAX_STEP] = 1;
    tetris_mark_piece(env, 1);
    tetris_mark_queue(env, 1);
    env->observations[TETRIS_LEVEL + tetris_level(env) - 1] = 1;
}

PUFFER_FN void tetris_finish_episode(Tetris* env, uint8_t* flag) {
    *flag = 1;
    env->log.perf += env->lines < TETRIS_MARATHON ? (float)env->lines / (float)TETRIS_MARATHON : 1.0f;
    env->log.score += (float)env->lines;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1.0f;
    keep_final(env->final_observations, env->observations, TETRIS_OBSERVATION_SIZE);
    c_reset(env);
}

// ------------------------------------------------------------------------------------------------------------ a step

// Does what the player wants; returns whether the piece is to lock at once.
PUFFER_FN bool tetris_act(Tetris* env) {
    switch (((const int32_t*)env->actions)[0]) {
        case TETRIS_LEFT:
            tetris_try(env, env->rotation, env->column - 1, env->row);
            return false;
        case TETRIS_RIGHT:
            tetris_try(env, env->rotation, env->column + 1, env->row);
            return false;
        case TETRIS_TURN:
            tetris_turn(env);
            return false;
        case TETRIS_SOFT:
            env->rewards[0] += TETRIS_POINT_REWARD * (float)tetris_sink(env, 1);
            return false;
        case TETRIS_HARD:
            env->rewards[0] += 2.0f * TETRIS_POINT_REWARD * (float)tetris_sink(env, TETRIS_CEILING);
            return true;
        case TETRIS_HOLD:
            tetris_hold(env);
            return false;
        default:
            return false;
    }
}

// Gravity; returns whether the piece has been on the ground for too long.
PUFFER_FN bool tetris_fall(Tetris* env) {
    int fall = env->fall + TETRIS_GRAVITY[tetris_level(env) - 1];
    env->fall = (int16_t)(fall % TETRIS_ROW);
    if (fall >= TETRIS_ROW) tetris_sink(env, fall / TETRIS_ROW);
    if (env->row > env->landing_row) return false;
    env->fall = 0;
    bool is_late = env->ground_steps == TETRIS_LOCK_STEPS - 1;
    env->ground_steps += !is_late;
    return is_late;
}

PUFFER_FN void c_step(Tetris* env) {
    env->rewards[0] = 0.0f;
    env->terminals[0] = env->truncations[0] = 0;
    env->steps += 1;
    tetris_mark_piece(env, 0);
    bool is_locking = tetris_act(env);
    if (!is_locking && !env->is_topped_out) is_locking = tetris_fall(env);
    if (is_locking) tetris_lock(env);
    tetris_mark_piece(env, 1);
    env->episode_return += env->rewards[0];
    if (env->is_topped_out) {
        tetris_finish_episode(env, env->terminals);
    } else if (env->steps == TETRIS_MAX_STEPS) {
        tetris_finish_episode(env, env->truncations);
    }
}

PUFFER_FN bool tetris_accepts_rows(const Tetris* saved) {
    for (int i = 0; i < TETRIS_ROWS; i++) {
        int row = i - TETRIS_SOLID_ROWS, bits = saved->rows[i];
        bool is_solid = row < 0 || row >= TETRIS_CEILING;
        if (is_solid ? bits != TETRIS_FULL_ROW : (bits & TETRIS_EMPTY_ROW) != TETRIS_EMPTY_ROW) return false;
        if (!is_solid && (bits == TETRIS_FULL_ROW || (row >= saved->height && bits != TETRIS_EMPTY_ROW))) return false;
    }
    for (int i = 0; i < TETRIS_CEILING * TETRIS_WIDTH; i++) {
        if (!is_within(saved->kinds[i], 0, TETRIS_KINDS - 1)) return false;
    }
    return true;
}

PUFFER_FN bool tetris_accepts_landing(const Tetris* saved) {
    Tetris seen = *saved;
    tetris_look_down(&seen);
    return saved->landing_row == seen.landing_row && saved->landing_lines == seen.landing_lines &&
           saved->landing_gaps == seen.landing_gaps && saved->landing_rougher == seen.landing_rougher;
}

PUFFER_FN bool tetris_accepts_survey(const Tetris* saved) {
    TetrisSurvey survey = tetris_survey(saved->rows + TETRIS_SOLID_ROWS, saved->height);
    for (int i = 0; i < TETRIS_WIDTH - 1; i++) {
        if (saved->steps_shown[i] != survey.steps[i]) return false;
    }
    return saved->roughness == survey.roughness;
}

PUFFER_FN bool tetris_accepts_piece(const Tetris* saved) {
    return is_within(saved->kind, 0, TETRIS_KINDS - 1) && is_within(saved->rotation, 0, TETRIS_ROTATIONS - 1) &&
           is_within(saved->column, TETRIS_MIN_COLUMN, TETRIS_MAX_COLUMN) &&
           is_within(saved->row, -2, TETRIS_CEILING - 2) &&
           !tetris_overlaps(saved, tetris_mask(tetris_shape(saved), saved->column), saved->row) &&
           tetris_accepts_landing(saved) && is_within(saved->deepest_row, -2, TETRIS_CEILING - 2) &&
           is_within(saved->ground_steps, 0, TETRIS_LOCK_STEPS - 1) &&
           is_within(saved->ground_moves, 0, TETRIS_LOCK_MOVES);
}

PUFFER_FN bool c_accepts(const Tetris* env, const Tetris* saved) {
    bool is_queue_known = true;
    for (int i = 0; i < TETRIS_NEXT; i++) is_queue_known = is_queue_known && saved->next[i] < TETRIS_KINDS;
    return saved->starting_level == env->starting_level && is_bool(&saved->shaped) && saved->shaped == env->shaped &&
           is_within(saved->height, 0, TETRIS_CEILING) && tetris_accepts_rows(saved) && tetris_accepts_survey(saved) &&
           tetris_accepts_piece(saved) && is_queue_known && is_within(saved->held, 0, TETRIS_NONE) &&
           is_bool(&saved->may_hold) && is_bool(&saved->is_topped_out) && !saved->is_topped_out &&
           saved->bag < 1 << TETRIS_KINDS && is_within(saved->fall, 0, TETRIS_ROW - 1) &&
           is_within(saved->lines, 0, PUFFER_MAX_STEPS) && is_within(saved->steps, 0, TETRIS_MAX_STEPS - 1);
}
