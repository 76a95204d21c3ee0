/*
 * The header of a .safetensors file: u64 length, then JSON. Read with every rule of the format
 * checked (FORMATS.md: no holes, no overlap, sizes that fit, no duplicate keys); written as the
 * reference library writes it, so that the same tensors give the same bytes: by alignment
 * descending, then by name.
 */
#ifndef COLLCTL_DATA_SAFETENSORS_H
#define COLLCTL_DATA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dataset.h"

#define SAFETENSORS_HEADER_MAX 100000000u

/* "BF16", "F8_E4M3"; NULL: the format has none (c128, i128). */
const char *safetensors_dtype_name(enum dtype dtype);
enum dtype safetensors_dtype_by_name(const char *name, size_t len); /* or DTYPE_NONE */

#define SAFETENSORS_PREFIX 8 /* bytes of the length before the JSON */

/* The length of the JSON, from the first bytes of a file of @file_size bytes: all of it lies in the
 * file. -1: an error without the file's name. */
int safetensors_header_len(const uint8_t prefix[SAFETENSORS_PREFIX], uint64_t file_size,
                           size_t *len, struct err *err);

/* Parse the @len bytes of JSON (behind the length) of a file of @file_size bytes; they are
 * overwritten. Calls @tensor for
 * each in any order, with its offset from the start of the file; name and shape last only for the
 * call. *@metadata: __metadata__ as compact JSON text with sorted keys, malloced, or NULL. The
 * error names no file. */
int safetensors_parse(char *json, size_t len, uint64_t file_size,
                      int (*tensor)(void *ctx, const struct tensor *, struct err *), void *ctx,
                      char **metadata, struct err *err);

/* Lay out a file of @tensors (n pointers; sorted in place to the file's order): *head, malloced, is
 * the length and the JSON, padded; *size the whole file's bytes; offsets[i] where the tensor that
 * is now at i begins. @metadata: as above. */
int safetensors_lay_out(const struct tensor **tensors, size_t n, const char *metadata, char **head,
                        size_t *head_len, uint64_t *offsets, uint64_t *size, struct err *err);

#endif
