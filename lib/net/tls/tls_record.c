#include "lib/net/tls/tls_record.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <string.h>

#include "lib/crypto/crypto.h"
#include "lib/net/tls/tls_gcm.h"

#define NONCE TLS_NONCE
#define TAG   16

/* ---- keys ---- */

/* HKDF-Expand-Label with an empty context (RFC 8446, 7.1). */
static int expand(const uint8_t secret[TLS_SECRET], const char *label, uint8_t *out, size_t n)
{
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	/* The casts remove const: this interface only reads. */
	OSSL_PARAM params[] = {
	        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
	        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
	        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)secret, TLS_SECRET),
	        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, (void *)"tls13 ", 6),
	        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, (void *)label,
	                                          strlen(label)),
	        OSSL_PARAM_construct_end(),
	};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS13-KDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	int ok = ctx && EVP_KDF_derive(ctx, out, n, params) > 0;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok ? 0 : -1;
}

static int set_cipher_key(struct tls_keys *k, const uint8_t *key)
{
	EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, k->cipher, NULL);
	if (!k->ctx)
		k->ctx = EVP_CIPHER_CTX_new();
	int ok = cipher && k->ctx &&
	         EVP_CipherInit_ex(k->ctx, cipher, NULL, NULL, NULL, k->sends) == 1 &&
	         EVP_CIPHER_CTX_ctrl(k->ctx, EVP_CTRL_AEAD_SET_IVLEN, NONCE, NULL) == 1 &&
	         EVP_CipherInit_ex(k->ctx, NULL, NULL, key, NULL, k->sends) == 1;
	EVP_CIPHER_free(cipher);
	return ok ? 0 : -1;
}

/* ipsec-mb has AES-128-GCM, the suite that two collctls choose. */
int tls_keys_set(struct tls_keys *k, const uint8_t *key)
{
	if (k->key_len != TLS_GCM_KEY || !tls_gcm_library())
		return set_cipher_key(k, key);
	tls_gcm_free(k->wide);
	k->wide = tls_gcm_new(key);
	return k->wide ? 0 : -1;
}

static int derive(struct tls_keys *k, struct err *err)
{
	uint8_t key[32];
	int ok = expand(k->secret, "key", key, k->key_len) == 0 &&
	         expand(k->secret, "iv", k->iv, sizeof k->iv) == 0 && tls_keys_set(k, key) == 0;
	OPENSSL_cleanse(key, sizeof key);
	k->sequence = 0;
	return ok ? 0 : crypto_failed(err, ERR_RESOURCE, "cannot set the keys of TLS");
}

int tls_keys_init(struct tls_keys *k, unsigned suite, const uint8_t secret[TLS_SECRET], bool sends,
                  struct err *err)
{
	bool chacha = suite == 0x1303;
	*k = (struct tls_keys){.cipher = chacha ? "ChaCha20-Poly1305" : "AES-128-GCM",
	                       .key_len = chacha ? 32 : 16,
	                       .sends = sends};
	memcpy(k->secret, secret, TLS_SECRET);
	if (suite != 0x1301 && !chacha)
		return err_set(err, ERR_OTHER, "TLS chose the suite %#x", suite);
	return derive(k, err);
}

int tls_keys_update(struct tls_keys *k, struct err *err)
{
	uint8_t next[TLS_SECRET];
	int ret = expand(k->secret, "traffic upd", next, sizeof next);
	if (ret < 0)
		return crypto_failed(err, ERR_RESOURCE, "cannot update the keys of TLS");
	memcpy(k->secret, next, sizeof next);
	OPENSSL_cleanse(next, sizeof next);
	return derive(k, err);
}

void tls_keys_release(struct tls_keys *k)
{
	tls_gcm_free(k->wide);
	EVP_CIPHER_CTX_free(k->ctx);
	OPENSSL_cleanse(k, sizeof *k);
}

/* ---- records ---- */

/* The sequence number, big-endian, into the end of the IV. */
static void next_nonce(struct tls_keys *k, uint8_t nonce[NONCE])
{
	memcpy(nonce, k->iv, NONCE);
	for (int i = 0; i < 8; i++)
		nonce[NONCE - 1 - i] ^= (uint8_t)(k->sequence >> 8 * i);
	k->sequence++;
}

bool tls_keys_seal(struct tls_keys *k, const uint8_t nonce[NONCE], const uint8_t *aad,
                   size_t aad_len, const uint8_t *text, size_t n, uint8_t last, uint8_t *out)
{
	EVP_CIPHER_CTX *c = k->ctx;
	int len;
	if (k->wide) {
		tls_gcm_seal(k->wide, nonce, aad, aad_len, text, n, last, out);
		return true;
	}
	return EVP_EncryptInit_ex(c, NULL, NULL, NULL, nonce) == 1 &&
	       (aad_len == 0 || EVP_EncryptUpdate(c, NULL, &len, aad, (int)aad_len) == 1) &&
	       (n == 0 || EVP_EncryptUpdate(c, out, &len, text, (int)n) == 1) &&
	       EVP_EncryptUpdate(c, out + n, &len, &last, 1) == 1 &&
	       EVP_EncryptFinal_ex(c, out + n + 1, &len) == 1 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, out + n + 1) == 1;
}

bool tls_keys_open(struct tls_keys *k, const uint8_t nonce[NONCE], const uint8_t *aad,
                   size_t aad_len, const uint8_t *in, size_t n, uint8_t *text, uint8_t *last)
{
	EVP_CIPHER_CTX *c = k->ctx;
	int len;
	uint8_t tag[TAG], none[1];
	if (k->wide)
		return tls_gcm_open(k->wide, nonce, aad, aad_len, in, n, text, last);
	memcpy(tag, in + n + 1, TAG); /* this interface may write it */
	return EVP_DecryptInit_ex(c, NULL, NULL, NULL, nonce) == 1 &&
	       EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, tag) == 1 &&
	       (aad_len == 0 || EVP_DecryptUpdate(c, NULL, &len, aad, (int)aad_len) == 1) &&
	       (n == 0 || EVP_DecryptUpdate(c, text, &len, in, (int)n) == 1) &&
	       EVP_DecryptUpdate(c, last, &len, in + n, 1) == 1 &&
	       EVP_DecryptFinal_ex(c, none, &len) == 1;
}

int tls_record_seal(struct tls_keys *k, enum tls_type type, const void *text, size_t n,
                    uint8_t *record)
{
	size_t len = n + TLS_RECORD_EXTRA - TLS_RECORD_HEADER;
	uint8_t nonce[NONCE], *out = record + TLS_RECORD_HEADER;
	const uint8_t header[] = {TLS_TYPE_DATA, 3, 3, (uint8_t)(len >> 8), (uint8_t)len};
	memcpy(record, header, sizeof header);
	next_nonce(k, nonce);
	return tls_keys_seal(k, nonce, header, sizeof header, text, n, (uint8_t)type, out) ? 0 : -1;
}

int tls_record_length(const uint8_t h[TLS_RECORD_HEADER])
{
	int len = TLS_RECORD_HEADER + (h[3] << 8 | h[4]);
	if (h[0] != TLS_TYPE_DATA || h[1] != 3 || h[2] != 3)
		return -SSL_AD_UNEXPECTED_MESSAGE;
	if (len > TLS_RECORD_MAX)
		return -SSL_AD_RECORD_OVERFLOW;
	return len < TLS_RECORD_EXTRA ? -SSL_AD_BAD_RECORD_MAC : len;
}

int tls_record_open(struct tls_keys *k, const uint8_t *record, size_t len, uint8_t *text, size_t *n,
                    uint8_t *type)
{
	const uint8_t *in = record + TLS_RECORD_HEADER;
	uint8_t nonce[NONCE];
	*n = len - TLS_RECORD_EXTRA;
	next_nonce(k, nonce);
	if (!tls_keys_open(k, nonce, record, TLS_RECORD_HEADER, in, *n, text, type)) {
		memset(text, 0, *n); /* it may be anything */
		return -1;
	}
	while (*type == 0 && *n) /* padding: the type is the last byte that is not 0 */
		*type = text[--*n];
	return 0;
}
