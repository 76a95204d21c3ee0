/*
 * Reads a pickle of protocol 2 to 5 as data. Nothing is ever run: what a pickle asks to be called
 * becomes a record of the callable's name and its arguments, and only callables that the caller
 * permits by name are accepted. Source: CPython's Lib/pickletools.py. One thread.
 *
 * The memory is some 60 times the pickle's length at most: every opcode makes at most one value.
 * Values may be shared, and a list or a dict may contain itself: who walks them bounds the depth
 * and the number of steps.
 */
#ifndef COLLCTL_DATA_TORCH_PICKLE_H
#define COLLCTL_DATA_TORCH_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/pool.h"

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_BOOL,    /* number */
	PICKLE_INT,     /* number */
	PICKLE_LARGE,   /* an integer of more than 64 bits: its value is not kept */
	PICKLE_FLOAT,   /* real */
	PICKLE_TEXT,    /* text */
	PICKLE_BYTES,   /* text */
	PICKLE_LIST,    /* items */
	PICKLE_TUPLE,   /* items */
	PICKLE_SET,     /* items */
	PICKLE_DICT,    /* items: key, value, key, value ... in the order of the pickle */
	PICKLE_GLOBAL,  /* global */
	PICKLE_RECORD,  /* record */
	PICKLE_FOREIGN, /* record->arguments: the persistent id of an object outside the pickle */
};

struct pickle_value {
	enum pickle_kind kind;
	uint32_t n; /* bytes of text; items, not pairs */
	union {
		int64_t number;
		double real;
		const char *text; /* [n], no NUL at its end; in the caller's bytes */
		const struct pickle_value **items;
		const struct pickle_global *global;
		struct pickle_record *record;
	};
};

struct pickle_global {
	uint32_t module_len, name_len;
	const char *module, *name; /* in the caller's bytes */
};

/* An object that a callable would have made. */
struct pickle_record {
	const struct pickle_value *callable; /* PICKLE_GLOBAL; NULL in PICKLE_FOREIGN */
	const struct pickle_value *arguments;
	const struct pickle_value *state; /* of BUILD; NULL: none */
	/* What was added to it as to a dict or a list; kind NONE: nothing was. */
	struct pickle_value content;
};

struct pickle {
	const struct pickle_value *root;
	struct pool pool;
};

/* Read the @len bytes, which must outlive the values. @permits: may this global be named? Errors
 * are ERR_INPUT and name no file: the pickle does not end with the bytes, has an unknown opcode or
 * a global that is not permitted, which is named; ERR_RESOURCE. On failure there is nothing to
 * release. */
int pickle_read(struct pickle *, const void *bytes, size_t len,
                bool (*permits)(const struct pickle_global *), struct err *err);
void pickle_release(struct pickle *);

/* Is it the global @module.@name? */
bool pickle_is_global(const struct pickle_value *, const char *module, const char *name);
/* The text is @text? */
bool pickle_is_text(const struct pickle_value *, const char *text);
/* The value of the text key @key in a dict; NULL: there is none, or @dict is no dict. Of two the
 * last one counts, as in Python. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);
/* Is it a record of a callable of this name, in any module? */
bool pickle_is_record(const struct pickle_value *, const char *name);
/* The state of a record as a dict that is short enough to be searched for each field; NULL: it is
 * none. */
const struct pickle_value *pickle_fields(const struct pickle_value *state);
/* Is it an integer >= 0? */
bool pickle_number(const struct pickle_value *, uint64_t *number);

#endif
