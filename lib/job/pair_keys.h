/*
 * The keys of the pairs of ranks. A pair's lanes have their keys from it (mesh.h), so only its two
 * ranks, and the coordinator, can make or accept a connection between them. The coordinator
 * derives each from one key, which it draws and gives to nobody: HKDF-Expand(RFC 5869) with the
 * info "pair|LOWER|HIGHER". It keeps no state for a pair.
 */
#ifndef COLLCTL_JOB_PAIR_KEYS_H
#define COLLCTL_JOB_PAIR_KEYS_H

#include "lib/base/err.h"
#include "lib/net/tls/tls.h"

struct pair_keys;

/* With a new random key. NULL: ERR_RESOURCE. */
struct pair_keys *pair_keys_new(struct err *err);
void pair_keys_free(struct pair_keys *); /* wipes the key; NULL: nothing */
/* The key of the ranks @a and @b, in any order. -1: ERR_RESOURCE. */
int pair_keys_get(struct pair_keys *, int a, int b, uint8_t key[TLS_KEY_BYTES], struct err *err);

#endif
