// puffer_snapshot.h - environments to bytes and back; part of puffer_binding.h.
//
// A snapshot is a header, then for each environment its struct (borrowed pointers set to NULL) and the rows it wrote.
// The checksum finds damage, and c_accepts what play never leads to, whoever wrote it: every environment is looked at
// before any is changed, and no pointer comes from bytes.
#pragma once

#include "puffer_arrays.h"

// The environments of a vec, or a single one.
typedef struct {
    Env* contiguous;  // [count], or NULL: then
    Env** scattered;  // [count]
    int count;
} EnvSet;

static inline Env* set_at(const EnvSet* set, int index) {
    return set->contiguous ? &set->contiguous[index] : set->scattered[index];
}

// Of the form of a snapshot; it grows when an older one can no longer be read.
enum { SNAPSHOT_VERSION = 0 };

typedef struct {
    char magic[7];
    uint8_t version;
    char name[32];      // of the environment, cut to fit
    uint64_t checksum;  // of all that follows the header
    int64_t env_size, num_envs;
    int64_t num_agents, observation_size, observation_type, action_size, action_type;
} SnapshotHeader;

static SnapshotHeader snapshot_header(const PufferLayout* layout, int num_envs) {
    SnapshotHeader header = {.magic = {'P', 'U', 'F', 'S', 'N', 'A', 'P'},
                             .version = SNAPSHOT_VERSION,
                             .env_size = sizeof(Env),
                             .num_envs = num_envs,
                             .num_agents = layout->num_agents,
                             .observation_size = layout->observation_size,
                             .observation_type = layout->observation_type,
                             .action_size = layout->action_size,
                             .action_type = layout->action_type};
    strncpy(header.name, ENV_NAME, sizeof(header.name) - 1);
    return header;
}

// FNV-1a over 8-byte words, the tail byte by byte.
static uint64_t snapshot_checksum(const char* bytes, Py_ssize_t size) {
    uint64_t hash = 0xCBF29CE484222325ull;
    Py_ssize_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x100000001B3ull;
    }
    for (; i < size; i++) hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001B3ull;
    return hash;
}

typedef struct {
    void* address;
    Py_ssize_t size;
} Block;

enum { NUM_BLOCKS = NUM_ARRAYS - 1 };

static Py_ssize_t env_observation_bytes(const PufferLayout* layout) {
    return (Py_ssize_t)layout->num_agents * layout->observation_size * ARRAY_TYPES[layout->observation_type].item_size;
}

// The rows an environment writes; what it reads (actions) is no part of its state.
static void env_blocks(const Env* env, const PufferLayout* layout, Block blocks[NUM_BLOCKS]) {
    ArraySpec specs[NUM_ARRAYS];
    array_specs(layout, specs);
    const void* rows[NUM_ARRAYS];
    env_rows(env, rows);
    for (int i = 0, block = 0; i < NUM_ARRAYS; i++) {
        if (i == ACTIONS) continue;
        blocks[block++] = (Block){(void*)rows[i], layout->num_agents * specs[i].row_size * specs[i].type.item_size};
    }
}

static Py_ssize_t env_snapshot_size(const Env* env, const PufferLayout* layout) {
    Block blocks[NUM_BLOCKS];
    env_blocks(env, layout, blocks);
    Py_ssize_t size = sizeof(Env);
    for (int i = 0; i < NUM_BLOCKS; i++) size += blocks[i].size;
    return size;
}

static void env_copy_pointers(Env* to, const Env* from) {
    to->observations = from->observations;
    to->actions = from->actions;
    to->rewards = from->rewards;
    to->terminals = from->terminals;
    to->truncations = from->truncations;
#ifdef ENV_ACTION_MASKS
    to->action_masks = from->action_masks;
#endif
#ifdef ENV_TURNS
    to->masks = from->masks;
#endif
    to->final_observations = from->final_observations;
#ifdef MY_SHARED
    to->shared = from->shared;
#endif
}

static void env_clear_pointers(Env* env) {
    env->observations = NULL;
    env->actions = NULL;
    env->rewards = NULL;
    env->terminals = env->truncations = NULL;
#ifdef ENV_ACTION_MASKS
    env->action_masks = NULL;
#endif
#ifdef ENV_TURNS
    env->masks = NULL;
#endif
    env->final_observations = NULL;
#ifdef MY_SHARED
    env->shared = NULL;
#endif
}

// Writes one environment and returns the end of what it wrote; scratch is any struct to work in.
static char* env_write_snapshot(const Env* env, const PufferLayout* layout, Env* scratch, char* at) {
    memcpy(scratch, env, sizeof(Env));
    env_clear_pointers(scratch);
    memcpy(at, scratch, sizeof(Env));
    at += sizeof(Env);
    Block blocks[NUM_BLOCKS];
    env_blocks(env, layout, blocks);
    for (int i = 0; i < NUM_BLOCKS; i++) {
        memcpy(at, blocks[i].address, (size_t)blocks[i].size);
        at += blocks[i].size;
    }
    return at;
}

// Fills a struct to work in with what a snapshot has in place of an environment's.
static void env_read_struct(Env* scratch, const Env* env, const char* at) {
    memcpy(scratch, at, sizeof(Env));
    env_copy_pointers(scratch, env);
}

// The flags of every agent, and its masks where it has some, are what a snapshot of an environment ends with.
static bool flags_are_bools(const char* end, const PufferLayout* layout) {
    Py_ssize_t agents = layout->num_agents, flags = 2 * agents;
#ifdef ENV_ACTION_MASKS
    flags += agents * layout->num_choices;
#endif
#ifdef ENV_TURNS
    flags += agents;
#endif
    for (Py_ssize_t i = 1; i <= flags; i++) {
        if ((uint8_t)end[-i] > 1) return false;
    }
    return true;
}

static bool env_accepts_snapshot(const Env* env, const PufferLayout* layout, Env* scratch, const char* at) {
    env_read_struct(scratch, env, at);
    return c_accepts(env, scratch) && flags_are_bools(at + env_snapshot_size(env, layout), layout);
}

static const char* env_read_snapshot(Env* env, const PufferLayout* layout, Env* scratch, const char* at) {
    env_read_struct(scratch, env, at);
    memcpy(env, scratch, sizeof(Env));
    at += sizeof(Env);
    Block blocks[NUM_BLOCKS];
    env_blocks(env, layout, blocks);
    for (int i = 0; i < NUM_BLOCKS; i++) {
        memcpy(blocks[i].address, at, (size_t)blocks[i].size);
        at += blocks[i].size;
    }
    return at;
}

static PyObject* snapshot_envs(const EnvSet* set) {
    PufferLayout layout = c_layout(set_at(set, 0));
    SnapshotHeader header = snapshot_header(&layout, set->count);
    Py_ssize_t size = set->count * env_snapshot_size(set_at(set, 0), &layout);
    Env* scratch = malloc(sizeof(Env));
    if (scratch == NULL) return PyErr_NoMemory();
    PyObject* bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(header) + size);
    if (bytes != NULL) {
        char* at = PyBytes_AS_STRING(bytes) + sizeof(header);
        for (int i = 0; i < set->count; i++) at = env_write_snapshot(set_at(set, i), &layout, scratch, at);
        header.checksum = snapshot_checksum(PyBytes_AS_STRING(bytes) + sizeof(header), size);
        memcpy(PyBytes_AS_STRING(bytes), &header, sizeof(header));
    }
    free(scratch);
    return bytes;
}

static int raise_snapshot_mismatch(const SnapshotHeader* expected, const SnapshotHeader* found) {
    char name[sizeof(found->name) + 1] = {0};
    memcpy(name, found->name, sizeof(found->name));
    PyErr_Format(
        PyExc_ValueError,
        ENV_NAME
        ": expected a snapshot of %lld environment(s) of " ENV_NAME
        " (%lld bytes, %lld x %lld observation elements), got %lld of %s (%lld bytes, %lld x %lld); restore it "
        "into environments made with the arguments it was taken with",
        (long long)expected->num_envs, (long long)expected->env_size, (long long)expected->num_agents,
        (long long)expected->observation_size, (long long)found->num_envs, name, (long long)found->env_size,
        (long long)found->num_agents, (long long)found->observation_size);
    return -1;
}

static int snapshot_check(const EnvSet* set, const char* bytes, Py_ssize_t size) {
    PufferLayout layout = c_layout(set_at(set, 0));
    SnapshotHeader expected = snapshot_header(&layout, set->count), found;
    Py_ssize_t body = set->count * env_snapshot_size(set_at(set, 0), &layout);
    if (size >= (Py_ssize_t)sizeof(found)) memcpy(&found, bytes, sizeof(found));
    if (size < (Py_ssize_t)sizeof(found) || memcmp(found.magic, expected.magic, sizeof(found.magic)) != 0) {
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": expected a snapshot, got other bytes");
        return -1;
    }
    if (found.version != expected.version) {
        PyErr_Format(PyExc_ValueError,
                     ENV_NAME
                     ": expected a snapshot of version %d, got version %d; take it anew with this version of "
                     "PufferLib",
                     expected.version, found.version);
        return -1;
    }
    expected.checksum = found.checksum;
    if (memcmp(&expected, &found, sizeof(found)) != 0) return raise_snapshot_mismatch(&expected, &found);
    const char* content = bytes + sizeof(found);
    if (size != (Py_ssize_t)sizeof(found) + body || snapshot_checksum(content, body) != found.checksum) {
        PyErr_SetString(PyExc_ValueError, ENV_NAME ": the snapshot is damaged; its checksum does not match");
        return -1;
    }
    return 0;
}

static int raise_unaccepted(int index) {
    PyErr_Format(
        PyExc_ValueError,
        ENV_NAME
        ": environment %d of the snapshot was made with other arguments or holds numbers that no game reaches; "
        "restore it into environments made with the arguments it was taken with",
        index);
    return -1;
}

// Restores all environments, or none.
static int restore_accepted(const EnvSet* set, Env* scratch, const char* at) {
    PufferLayout layout = c_layout(set_at(set, 0));
    Py_ssize_t size = env_snapshot_size(set_at(set, 0), &layout);
    for (int i = 0; i < set->count; i++) {
        if (!env_accepts_snapshot(set_at(set, i), &layout, scratch, at + i * size)) return raise_unaccepted(i);
    }
    for (int i = 0; i < set->count; i++) at = env_read_snapshot(set_at(set, i), &layout, scratch, at);
    return 0;
}

static int restore_envs(const EnvSet* set, PyObject* object) {
    if (!PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, ENV_NAME ": a snapshot must be bytes, got %s", Py_TYPE(object)->tp_name);
        return -1;
    }
    const char* bytes = PyBytes_AS_STRING(object);
    if (snapshot_check(set, bytes, PyBytes_GET_SIZE(object)) < 0) return -1;
    Env* scratch = malloc(sizeof(Env));
    if (scratch == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int status = restore_accepted(set, scratch, bytes + sizeof(SnapshotHeader));
    free(scratch);
    return status;
}

// ------------------------------------------------------------------------------------------------------ bare structs
//
// For whoever steps copies of the environments in another memory: the structs alone, one behind the other.

static PyObject* structs_of_envs(const EnvSet* set) {
    PyObject* bytes = PyBytes_FromStringAndSize(NULL, set->count * (Py_ssize_t)sizeof(Env));
    Env* scratch = bytes ? malloc(sizeof(Env)) : NULL;
    if (scratch == NULL) {
        Py_XDECREF(bytes);
        return PyErr_NoMemory();
    }
    for (int i = 0; i < set->count; i++) {
        memcpy(scratch, set_at(set, i), sizeof(Env));
        env_clear_pointers(scratch);
        memcpy(PyBytes_AS_STRING(bytes) + i * (Py_ssize_t)sizeof(Env), scratch, sizeof(Env));
    }
    free(scratch);
    return bytes;
}

// Takes all structs, or none; each environment keeps its own pointers, and accepts what it may be in.
static int put_structs(const EnvSet* set, const char* bytes, Py_ssize_t size) {
    if (size != set->count * (Py_ssize_t)sizeof(Env)) {
        PyErr_Format(PyExc_ValueError, ENV_NAME ": expected the structs of %d environment(s), %zd bytes, got %zd",
                     set->count, set->count * (Py_ssize_t)sizeof(Env), size);
        return -1;
    }
    Env* scratch = malloc(sizeof(Env));
    if (scratch == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int index = 0;
    for (; index < set->count; index++) {
        env_read_struct(scratch, set_at(set, index), bytes + index * (Py_ssize_t)sizeof(Env));
        if (!c_accepts(set_at(set, index), scratch)) break;
    }
    bool are_accepted = index == set->count;
    for (int i = 0; are_accepted && i < set->count; i++) {
        env_read_struct(scratch, set_at(set, i), bytes + i * (Py_ssize_t)sizeof(Env));
        memcpy(set_at(set, i), scratch, sizeof(Env));
    }
    free(scratch);
    return are_accepted ? 0 : raise_unaccepted(index);
}
