/*
 * The fields of what commands print with --json: a row for each. The manual page collctl-json(5)
 * (cmd/manual.c), the JSON Schema (schema.h) and tests/cli/json.bats are made from these rows.
 *
 * How to add a field: print it, and add its row to fields.c, where the manual is to have it. A test
 * fails for a field that has no row.
 */
#ifndef COLLCTL_CMD_JSON_FIELDS_H
#define COLLCTL_CMD_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

enum field_type {
	FIELD_STRING,
	FIELD_INTEGER,
	FIELD_NUMBER,
	FIELD_BOOLEAN,
	FIELD_OBJECT,
	FIELD_ARRAY,
	FIELD_ANY,
	FIELD_RESULT, /* the object of another command */
};
const char *field_type_name(enum field_type);

#define FIELD_NULL      1u /* may be null */
#define FIELD_SOMETIMES 2u /* may be left out of an object that has succeeded */

struct field {
	/* From the outermost object inward: "links[].round_trip.min". "[]" is each element of an
	 * array, ".*" each member of an object whose names are not known. A field comes after
	 * those that contain it. Objects in an array have no row. */
	const char *name;
	enum field_type type;
	unsigned flags;
	const char *unit;    /* NULL: none */
	const char *meaning; /* a sentence without its first capital and its full stop */
};

/* The values that are printed. */
enum output {
	OUTPUT_COLLECTIVE,
	OUTPUT_BARRIER,
	OUTPUT_VERIFY,
	OUTPUT_CHECK,
	OUTPUT_BENCH,
	OUTPUT_RUN,
	OUTPUT_INVITE,
	OUTPUT_PLAN,
	OUTPUT_COMPARE,
	OUTPUT_ALGORITHMS,
	OUTPUT_INFO,
	OUTPUT_CLEAN,
	OUTPUT_VERSION,
	OUTPUT_PROGRESS,
	OUTPUTS
};
#define OUTPUT_BIT(o) (1u << (o))

struct output_form {
	const char *name; /* in the schema */
	/* The value of "command"; NULL: any collective, or (OUTPUT_PROGRESS, OUTPUT_ALGORITHMS) the
	 * object has none. */
	const char *command;
	bool single, list; /* one object; an array of objects */
};
extern const struct output_form output_forms[OUTPUTS];

/* Rows of the same outputs, under a heading of the manual. */
struct field_section {
	unsigned outputs; /* OUTPUT_BIT */
	const char *title;
	const char *about; /* of the outputs; a sentence as in struct field; NULL: none */
	const struct field *fields;
	size_t n;
};
/* The first has the fields of every output with "command", and of every failure. */
extern const struct field_section field_sections[];
extern const size_t field_sections_len;

#endif
