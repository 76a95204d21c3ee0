#include "lib/job/pair_keys.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/private.h"
#include "lib/crypto/crypto.h"

/* The context alone has the key. It is made once: to make one for each pair takes several times as
 * long as the key of a pair. */
struct pair_keys {
	EVP_MAC_CTX *mac;
};

static int failed(struct err *err)
{
	return crypto_failed(err, ERR_RESOURCE, "HMAC failed");
}

static EVP_MAC_CTX *hmac_new(const uint8_t *key, size_t len)
{
	const OSSL_PARAM params[] = {
	        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
	        OSSL_PARAM_construct_end(),
	};
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
	EVP_MAC_free(hmac);
	if (ctx && EVP_MAC_init(ctx, key, len, params) == 1)
		return ctx;
	EVP_MAC_CTX_free(ctx);
	return NULL;
}

struct pair_keys *pair_keys_new(struct err *err)
{
	struct pair_keys *k = err_calloc(1, sizeof *k, "the keys of the lanes", err);
	uint8_t key[TLS_KEY_BYTES];
	if (!k)
		return NULL;
	if (crypto_random_key(key, sizeof key, err) == 0) {
		k->mac = hmac_new(key, sizeof key);
		if (!k->mac)
			failed(err);
	}
	wipe(key, sizeof key);
	if (k->mac)
		return k;
	free(k);
	return NULL;
}

void pair_keys_free(struct pair_keys *k)
{
	if (k)
		EVP_MAC_CTX_free(k->mac);
	free(k);
}

/* One block of HKDF-Expand: HMAC(key, info, 1); @info ends with the byte 1. */
static int expand(struct pair_keys *k, const char *info, int n, uint8_t key[TLS_KEY_BYTES],
                  struct err *err)
{
	size_t len;
	if (EVP_MAC_init(k->mac, NULL, 0, NULL) == 1 &&
	    EVP_MAC_update(k->mac, (const uint8_t *)info, (size_t)n) == 1 &&
	    EVP_MAC_final(k->mac, key, &len, TLS_KEY_BYTES) == 1 && len == TLS_KEY_BYTES)
		return 0;
	return failed(err);
}

int pair_keys_get(struct pair_keys *k, int a, int b, uint8_t key[TLS_KEY_BYTES], struct err *err)
{
	char info[40];
	int n = snprintf(info, sizeof info, "pair|%d|%d\x01", a < b ? a : b, a < b ? b : a);
	return expand(k, info, n, key, err);
}

int pair_keys_inquiry(struct pair_keys *k, int rank, uint8_t key[TLS_KEY_BYTES], struct err *err)
{
	char info[40];
	int n = snprintf(info, sizeof info, "inquiry|%d\x01", rank);
	return expand(k, info, n, key, err);
}
