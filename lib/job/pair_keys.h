/*
 * The keys of the pairs of ranks. The keys of a pair's connections are derived from the pair's key
 * (mesh.h). So only these two ranks, and the coordinator, can make or accept a connection between
 * them. The coordinator draws one random key, which it sends to no rank, and derives the key of
 * each pair from it when needed: HKDF-Expand (RFC 5869) with the info "pair|LOWER|HIGHER". One
 * thread.
 */
#ifndef COLLCTL_JOB_PAIR_KEYS_H
#define COLLCTL_JOB_PAIR_KEYS_H

#include "lib/base/err.h"
#include "lib/net/tls/tls.h"

struct pair_keys;

/* Draw the random key. NULL: ERR_RESOURCE. */
struct pair_keys *pair_keys_new(struct err *err);
void pair_keys_free(struct pair_keys *); /* wipes the key; NULL: nothing */
/* The key of the ranks @a and @b, in any order. -1: ERR_RESOURCE. */
int pair_keys_get(struct pair_keys *, int a, int b, uint8_t key[TLS_KEY_BYTES], struct err *err);
/* The key with which @rank proves itself when it asks for the verdict: info "inquiry|RANK". */
int pair_keys_inquiry(struct pair_keys *, int rank, uint8_t key[TLS_KEY_BYTES], struct err *err);

#endif
