/*
 * A message as a table of fields. The table says how each member of a struct is in the bytes
 * (little-endian) and which values it may have; encoder, decoder and bounds follow from it, and a
 * test compares it with lib/net/PROTOCOL.md. Pure: nothing is allocated.
 *
 *     MESSAGE(welcome, "WELCOME",
 *             FIELD(RANK, welcome, rank),
 *             FIELD(RANK_OR_NONE, welcome, root),
 *             FIELD(HOST, welcome, host));
 */
#ifndef COLLCTL_BASE_FIELDS_H
#define COLLCTL_BASE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"

enum wire_kind {
	/* Unsigned numbers; the value is their number of bytes. The member may be wider. */
	WIRE_U8 = 1,
	WIRE_U16 = 2,
	WIRE_U32 = 4,
	WIRE_U64 = 8,
	/* Texts: the member is an array of char. */
	WIRE_TEXT, /* view_str: cut to the member's size, and escaped */
	WIRE_HOST, /* host_name_get */
	/* Others. */
	WIRE_BYTES, /* as many as the member has */
	WIRE_SPAN,  /* u32 length, at most `most`, and bytes; the member is a view of the message */
	WIRE_PART,  /* a struct, by its table `part` */
	WIRE_LIST,  /* an array of such structs, as many as the int before it says */
};
#define WIRE_BOOL         WIRE_U8, .most = 1
#define WIRE_RANK         WIRE_U32, .most = JOB_MAX_SIZE - 1
#define WIRE_RANK_OR_NONE WIRE_RANK, .none = true

struct message_field {
	const char *name;
	enum wire_kind kind;
	size_t at, size;      /* of the member in its struct */
	uint64_t least, most; /* limits of a number, or of a span's length; most 0: the kind's */
	bool none;            /* 2^32-1 is valid, too, and is -1 in the member */
	bool (*fits)(const void *member); /* a further check; NULL: none */
	const struct message *part;
};
#define FIELD(kind_, thing, member, ...)                                                     \
	{                                                                                    \
		.name = #member, .kind = WIRE_##kind_, .at = offsetof(struct thing, member), \
		.size = sizeof(((struct thing *)0)->member), __VA_ARGS__                     \
	}

struct message {
	const char *name;                   /* for errors: "WELCOME" */
	size_t size;                        /* of the struct */
	const struct message_field *fields; /* up to one without a name */
};
/* The table thing_message of struct thing. */
#define MESSAGE(thing, name_, ...)                                           \
	const struct message thing##_message = {name_, sizeof(struct thing), \
	                                        (const struct message_field[]){__VA_ARGS__, {0}}}

/* Append the encoded *thing. Errors are sticky in the buffer (buf.h). */
void message_put(const struct message *, const void *thing, struct buf *);
/* Decode a message from the view, which advances. ERR_INTEGRITY names the message and the field
 * that is cut short or out of bounds; ERR_DISAGREE: a host's name is wrong (host_name_get). After a
 * failure the members that were not read are zero, and no number in *thing is out of bounds. A
 * WIRE_SPAN member points into the message. */
int message_get(const struct message *, void *thing, struct view *, struct err *err);
/* The same; the message must be all of @v. */
int message_get_all(const struct message *, void *thing, struct view v, struct err *err);
/* Set "a malformed MESSAGE message (FIELD)", ERR_INTEGRITY. Returns -1. */
int malformed(struct err *, const char *message, const char *field);

#endif
