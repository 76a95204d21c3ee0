#include "lib/net/hkdf.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#define SALT "collctl 1"

int hkdf(const uint8_t *key, size_t key_len, const void *info, size_t info_len, uint8_t *out,
         size_t out_len)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	OSSL_PARAM params[] = {
	        OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
	        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, key_len),
	        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_SALT, (void *)SALT, sizeof SALT - 1),
	        OSSL_PARAM_octet_string(OSSL_KDF_PARAM_INFO, (void *)info, info_len),
	        OSSL_PARAM_END,
	};
	params[0].data_size = 6;
	int ok = ctx && EVP_KDF_derive(ctx, out, out_len, params) == 1;
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok ? 0 : -1;
}
