#include "lib/crypto/crypto.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "lib/base/memory.h"

static void *watched_malloc(size_t n, const char *file, int line)
{
	(void)file, (void)line;
	return n ? memory_malloc(n) : NULL;
}

static void *watched_realloc(void *p, size_t n, const char *file, int line)
{
	(void)file, (void)line;
	if (n)
		return memory_realloc(p, n);
	memory_free(p);
	return NULL;
}

static void watched_free(void *p, const char *file, int line)
{
	(void)file, (void)line;
	memory_free(p);
}

void crypto_own_process(void)
{
	(void)CRYPTO_set_mem_functions(watched_malloc, watched_realloc, watched_free);
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

int crypto_begin(struct err *err)
{
	/* If the default context could not be created, every later call with NULL would use a
	 * half-made one. */
	if (!OSSL_LIB_CTX_get0_global_default())
		return err_set(err, ERR_RESOURCE, "out of memory: cannot start OpenSSL");
	EVP_MD *md = EVP_MD_fetch(NULL, "SHA256", NULL);
	EVP_MD_free(md);
	return md && !memory_lacked() ? 0
	                              : crypto_failed(err, ERR_RESOURCE, "cannot start OpenSSL");
}

bool crypto_lacked_memory(void)
{
	unsigned long e;
	bool lacked = memory_lacked();
	/* Other errors may be on top of that one. */
	while ((e = ERR_get_error()) != 0)
		lacked |= ERR_GET_REASON(e) == ERR_R_MALLOC_FAILURE;
	return lacked;
}

int crypto_failed(struct err *err, int code, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	if (crypto_lacked_memory())
		return err_set(err, ERR_RESOURCE, "out of memory: %s", what);
	return err_set(err, code, "%s%s%s", what, reason ? ": " : "", reason ? reason : "");
}

BIO *crypto_open(const char *path, int code, struct err *err)
{
	errno = 0;
	BIO *bio = BIO_new_file(path, "re");
	if (bio)
		return bio;
	ERR_clear_error();
	if (errno)
		err_errno(err, code, "%s", path);
	else
		err_nomem(err, path, 0);
	return NULL;
}

int crypto_sha256(const void *data, size_t len, uint8_t sum[32], struct err *err)
{
	if (EVP_Digest(data, len, sum, NULL, EVP_sha256(), NULL) == 1)
		return 0;
	return crypto_failed(err, ERR_RESOURCE, "SHA-256 failed");
}

int crypto_random(void *buf, size_t len, struct err *err)
{
	if (RAND_bytes(buf, (int)len) == 1)
		return 0;
	return crypto_failed(err, ERR_RESOURCE, "no random numbers");
}

int crypto_random_key(void *buf, size_t len, struct err *err)
{
	if (RAND_priv_bytes(buf, (int)len) == 1)
		return 0;
	return crypto_failed(err, ERR_RESOURCE, "no random numbers");
}
