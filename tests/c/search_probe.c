// search_probe.c - a game's moves and what puffer_alphabeta.h finds in it, for Python to call. The game's header is
// included before this file, on the command line of the compiler.

int position_size(void);
int most_moves(void);
int list_moves(const SearchPosition* position, SearchMove* moves);
void play(const SearchPosition* position, SearchMove move, SearchPosition* next);
uint64_t perft(const SearchPosition* position, int depth);
int value(const SearchPosition* position, int depth);
SearchMove best(const SearchPosition* position, int depth, uint64_t seed);

int position_size(void) { return (int)sizeof(SearchPosition); }

int most_moves(void) { return SEARCH_MAX_MOVES; }

int list_moves(const SearchPosition* position, SearchMove* moves) { return alphabeta_list(position, moves); }

void play(const SearchPosition* position, SearchMove move, SearchPosition* next) {
    *next = search_play(position, move);
}

// Ways to play so many turns.
uint64_t perft(const SearchPosition* position, int depth) {
    SearchMove moves[SEARCH_MAX_MOVES];
    if (depth == 0) return 1;
    uint64_t total = 0;
    for (int left = alphabeta_list(position, moves); left > 0; left--) {
        SearchPosition next = search_play(position, moves[left - 1]);
        total += perft(&next, search_keeps_turn(position, &next) ? depth : depth - 1);
    }
    return total;
}

int value(const SearchPosition* position, int depth) {
    return alphabeta_value(position, depth, -SEARCH_INFINITY, SEARCH_INFINITY);
}

SearchMove best(const SearchPosition* position, int depth, uint64_t seed) {
    Rng rng = rng_seed(seed, 0);
    return alphabeta_best(position, depth, &rng);
}
