/*
 * Elements of the agreement's messages: the details of intents and plans (lib/net/PROTOCOL.md).
 * Pure functions. An encoder appends to a buffer, whose errors are sticky (buf.h). A decoder
 * advances its view, checks every bound, and returns 0, or -1: ERR_INTEGRITY for malformed input,
 * or ERR_RESOURCE. It allocates at most a constant times the bytes of the message; the caller frees
 * this.
 *
 * Rows are elements of axis 0.
 */
#ifndef COLLCTL_COLL_AGREEMENT_AGREE_WIRE_H
#define COLLCTL_COLL_AGREEMENT_AGREE_WIRE_H

#include "lib/base/fields.h"
#include "lib/data/formats/array.h"

#define WIRE_BOTH "INTENT or ROSTER" /* for errors: both have the content of an offer */

/* Encode an array and the number of rows of each of the @size ranks. @counts NULL: divided as
 * evenly as possible. */
void wire_put_array(struct buf *, const struct array_info *info, const uint64_t *counts, int size);
/* Decode it. Does not set info->offset. *counts: malloced, or NULL: as evenly as possible. */
int wire_get_array(struct view *, int size, struct array_info *info, uint64_t **counts,
                   struct err *err);

/* A number of rows for each rank. */
void wire_put_rows(struct buf *, const uint64_t *rows, int size);
/* *rows: malloced. */
int wire_get_rows(struct view *, int size, uint64_t **rows, struct err *err);

/* Store the sum of @n numbers in *sum. -1: it exceeds 63 bits. */
int rows_sum(const uint64_t *rows, int n, uint64_t *sum);

/* Decode the base name of a file. ERR_DISAGREE: it is not plain (path_is_plain). *name:
 * malloced. */
int wire_get_name(struct view *, char **name, struct err *err);

/* Is the double finite and not negative? */
bool wire_is_weight(const void *number);

/* Check that the message was complete and that no bytes are left. */
int wire_end(const struct view *, struct err *err);

#endif
