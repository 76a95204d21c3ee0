/*
 * A bit of a rank's memory flips between the reduction and the digest: preloaded, it looks in all
 * that is hashed for the bytes that CORRUPT gives in hexadecimal digits and flips one of them,
 * once.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

static void corrupt(const void *data, size_t len)
{
	static int done;
	const char *hex = getenv("CORRUPT");
	unsigned char want[32];
	size_t n = 0;
	unsigned byte;

	for (; hex && n < sizeof want && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
		want[n] = (unsigned char)byte;
	unsigned char *at = n && !done ? memmem(data, len, want, n) : NULL;
	if (!at)
		return;
	at[0] ^= 1;
	done = 1;
}

#define UPDATE(name)                                                          \
	XXH_errorcode name(XXH3_state_t *state, const void *data, size_t len) \
	{                                                                     \
		XXH_errorcode (*real)(XXH3_state_t *, const void *, size_t);  \
		*(void **)&real = dlsym(RTLD_NEXT, #name);                    \
		corrupt(data, len);                                           \
		return real(state, data, len);                                \
	}
#define HASH(name)                                           \
	XXH128_hash_t name(const void *data, size_t len)     \
	{                                                    \
		XXH128_hash_t (*real)(const void *, size_t); \
		*(void **)&real = dlsym(RTLD_NEXT, #name);   \
		corrupt(data, len);                          \
		return real(data, len);                      \
	}

UPDATE(XXH3_128bits_update)
UPDATE(XXH3_128bits_update_dispatch)
HASH(XXH3_128bits)
HASH(XXH3_128bits_dispatch)
