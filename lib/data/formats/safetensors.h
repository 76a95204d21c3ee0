/*
 * The header of a .safetensors file: u64 length, then JSON. The reader checks every rule of the
 * format: no holes, no overlaps, matching sizes, no duplicate keys. The writer sorts tensors by
 * alignment, descending, then by name, as the reference library does; so the same tensors give the
 * same bytes. Thread-safe.
 *
 * Source: https://github.com/huggingface/safetensors.
 */
#ifndef COLLCTL_DATA_FORMATS_SAFETENSORS_H
#define COLLCTL_DATA_FORMATS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dataset/dataset.h"

#define SAFETENSORS_HEADER_MAX 100000000u

/* "BF16", "F8_E4M3"; NULL: the format lacks this type (c128, i128). */
const char *safetensors_dtype_name(enum dtype dtype);
enum dtype safetensors_dtype_by_name(const char *name, size_t len); /* or DTYPE_NONE */

#define SAFETENSORS_PREFIX 8 /* bytes of the length before the JSON */

/* The length of the JSON, from the first bytes of a file of @file_size bytes. Checks that the JSON
 * fits the file. -1: an error that does not name the file. */
int safetensors_header_len(const uint8_t prefix[SAFETENSORS_PREFIX], uint64_t file_size,
                           size_t *len, struct err *err);

/* Parse the JSON (after the length) of a file of @file_size bytes; it is overwritten. Calls @tensor
 * for each tensor, in any order, with its offset from the start of the file; its name and shape are
 * valid only during the call. *metadata: __metadata__ as compact JSON text with sorted keys,
 * malloced; NULL: none. ERR_INPUT, without the name of the file. */
int safetensors_parse(char *json, size_t len, uint64_t file_size,
                      int (*tensor)(void *ctx, const struct tensor *, struct err *), void *ctx,
                      char **metadata, struct err *err);

/* Lay out a file of @tensors (n pointers, which are sorted in the file's order). *head, malloced:
 * the length and the JSON, padded. *size: bytes of the whole file. offsets[i]: where tensors[i],
 * after sorting, begins. @metadata: as above. */
int safetensors_lay_out(const struct tensor **tensors, size_t n, const char *metadata, char **head,
                        size_t *head_len, uint64_t *offsets, uint64_t *size, struct err *err);

#endif
