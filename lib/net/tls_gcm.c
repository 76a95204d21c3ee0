/*
 * The provider: see tls_gcm.h. A context holds one key. Per record OpenSSL sets the nonce and, to
 * decrypt, the expected tag, gives the header as associated data (an update without output), the
 * payload in one update, and finishes. ipsec-mb takes nonce and associated data together, so both
 * are stored until the payload comes.
 */
#include "lib/net/tls_gcm.h"

#if defined(__x86_64__) && __has_include(<intel-ipsec-mb.h>)

#include <cpuid.h>
#include <intel-ipsec-mb.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/library.h"

#define NAME      "collctl-vaes"
#define KEY_BYTES 16
#define IV_BYTES  12
#define TAG_BYTES 16
#define AAD_MAX   64 /* TLS 1.3: the 5 bytes of a record's header */

static IMB_MGR *mgr;
static OSSL_PROVIDER *standard, *wide; /* while this process uses them */

struct gcm {
	struct gcm_key_data key; /* must be aligned */
	struct gcm_context_data ctx;
	uint8_t iv[IV_BYTES], tag[TAG_BYTES], aad[AAD_MAX];
	size_t aad_len;
	bool encrypts, has_key, has_iv, begun, has_tag;
};

/* ---- the cipher's life ---- */

static void *gcm_new(void *provider)
{
	struct gcm *g = aligned_alloc(64, (sizeof *g + 63) & ~(size_t)63);
	(void)provider;
	if (g)
		memset(g, 0, sizeof *g);
	return g;
}

static void gcm_free(void *vctx)
{
	if (vctx)
		OPENSSL_cleanse(vctx, sizeof(struct gcm));
	free(vctx);
}

static int gcm_set(void *vctx, const OSSL_PARAM params[]);

static int gcm_init(struct gcm *g, bool encrypts, const unsigned char *key, size_t keylen,
                    const unsigned char *iv, size_t ivlen, const OSSL_PARAM params[])
{
	g->encrypts = encrypts;
	g->begun = false;
	g->aad_len = 0;
	if ((key && keylen != KEY_BYTES) || (iv && ivlen != IV_BYTES))
		return 0;
	if (key) {
		IMB_AES128_GCM_PRE(mgr, key, &g->key);
		g->has_key = true;
	}
	if (iv) {
		memcpy(g->iv, iv, IV_BYTES);
		g->has_iv = true;
		g->has_tag = false;
	}
	return gcm_set(g, params);
}

static int gcm_encrypt_init(void *vctx, const unsigned char *key, size_t keylen,
                            const unsigned char *iv, size_t ivlen, const OSSL_PARAM params[])
{
	return gcm_init(vctx, true, key, keylen, iv, ivlen, params);
}

static int gcm_decrypt_init(void *vctx, const unsigned char *key, size_t keylen,
                            const unsigned char *iv, size_t ivlen, const OSSL_PARAM params[])
{
	return gcm_init(vctx, false, key, keylen, iv, ivlen, params);
}

/* ---- a message ---- */

/* A nonce is valid for one message. */
static bool begin(struct gcm *g)
{
	if (g->begun)
		return true;
	if (!g->has_key || !g->has_iv)
		return false;
	IMB_AES128_GCM_INIT(mgr, &g->key, &g->ctx, g->iv, g->aad, g->aad_len);
	g->begun = true;
	g->has_iv = false;
	return true;
}

static int add_aad(struct gcm *g, const unsigned char *in, size_t n)
{
	if (g->begun || n > AAD_MAX - g->aad_len)
		return 0;
	memcpy(g->aad + g->aad_len, in, n);
	g->aad_len += n;
	return 1;
}

static int gcm_update(void *vctx, unsigned char *out, size_t *outl, size_t outsize,
                      const unsigned char *in, size_t inl)
{
	struct gcm *g = vctx;
	*outl = 0;
	if (inl == 0)
		return 1;
	if (!out) {
		*outl = inl;
		return add_aad(g, in, inl);
	}
	if (outsize < inl || !begin(g))
		return 0;
	if (g->encrypts)
		IMB_AES128_GCM_ENC_UPDATE(mgr, &g->key, &g->ctx, out, in, inl);
	else
		IMB_AES128_GCM_DEC_UPDATE(mgr, &g->key, &g->ctx, out, in, inl);
	*outl = inl;
	return 1;
}

static int gcm_final(void *vctx, unsigned char *out, size_t *outl, size_t outsize)
{
	struct gcm *g = vctx;
	uint8_t tag[TAG_BYTES];
	(void)out;
	(void)outsize;
	*outl = 0;
	if (!begin(g) || (!g->encrypts && !g->has_tag))
		return 0;
	g->begun = false;
	g->aad_len = 0;
	if (g->encrypts) {
		IMB_AES128_GCM_ENC_FINALIZE(mgr, &g->key, &g->ctx, g->tag, TAG_BYTES);
		g->has_tag = true;
		return 1;
	}
	IMB_AES128_GCM_DEC_FINALIZE(mgr, &g->key, &g->ctx, tag, TAG_BYTES);
	g->has_tag = false;
	return CRYPTO_memcmp(tag, g->tag, TAG_BYTES) == 0;
}

/* ---- parameters ---- */

static int put_size(OSSL_PARAM params[], const char *name, size_t value)
{
	OSSL_PARAM *p = OSSL_PARAM_locate(params, name);
	return !p || OSSL_PARAM_set_size_t(p, value);
}

static int put_int(OSSL_PARAM params[], const char *name, int value)
{
	OSSL_PARAM *p = OSSL_PARAM_locate(params, name);
	return !p || OSSL_PARAM_set_int(p, value);
}

static int gcm_get_params(OSSL_PARAM params[])
{
	OSSL_PARAM *mode = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_MODE);
	return (!mode || OSSL_PARAM_set_uint(mode, EVP_CIPH_GCM_MODE)) &&
	       put_size(params, OSSL_CIPHER_PARAM_KEYLEN, KEY_BYTES) &&
	       put_size(params, OSSL_CIPHER_PARAM_IVLEN, IV_BYTES) &&
	       put_size(params, OSSL_CIPHER_PARAM_BLOCK_SIZE, 1) &&
	       put_int(params, OSSL_CIPHER_PARAM_AEAD, 1) &&
	       put_int(params, OSSL_CIPHER_PARAM_CUSTOM_IV, 1);
}

static int gcm_get(void *vctx, OSSL_PARAM params[])
{
	struct gcm *g = vctx;
	OSSL_PARAM *tag = OSSL_PARAM_locate(params, OSSL_CIPHER_PARAM_AEAD_TAG);
	if (tag && (!g->encrypts || !g->has_tag || tag->data_size > TAG_BYTES ||
	            !OSSL_PARAM_set_octet_string(tag, g->tag, tag->data_size)))
		return 0;
	return put_size(params, OSSL_CIPHER_PARAM_KEYLEN, KEY_BYTES) &&
	       put_size(params, OSSL_CIPHER_PARAM_IVLEN, IV_BYTES) &&
	       put_size(params, OSSL_CIPHER_PARAM_AEAD_TAGLEN, TAG_BYTES);
}

/* Set the expected tag. Lengths are accepted only with their fixed values. */
static int gcm_set(void *vctx, const OSSL_PARAM params[])
{
	struct gcm *g = vctx;
	const OSSL_PARAM *p =
	        params ? OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_AEAD_TAG) : NULL;
	size_t n;
	if (p && p->data) {
		if (g->encrypts || p->data_type != OSSL_PARAM_OCTET_STRING ||
		    p->data_size != TAG_BYTES)
			return 0;
		memcpy(g->tag, p->data, TAG_BYTES);
		g->has_tag = true;
	}
	p = params ? OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_IVLEN) : NULL;
	if (p && (!OSSL_PARAM_get_size_t(p, &n) || n != IV_BYTES))
		return 0;
	p = params ? OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_KEYLEN) : NULL;
	return !p || (OSSL_PARAM_get_size_t(p, &n) && n == KEY_BYTES);
}

static const OSSL_PARAM *gcm_gettable_params(void *provider)
{
	static const OSSL_PARAM table[] = {
	        OSSL_PARAM_uint(OSSL_CIPHER_PARAM_MODE, NULL),
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_BLOCK_SIZE, NULL),
	        OSSL_PARAM_int(OSSL_CIPHER_PARAM_AEAD, NULL),
	        OSSL_PARAM_int(OSSL_CIPHER_PARAM_CUSTOM_IV, NULL),
	        OSSL_PARAM_END,
	};
	(void)provider;
	return table;
}

static const OSSL_PARAM *gcm_gettable(void *vctx, void *provider)
{
	static const OSSL_PARAM table[] = {
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_AEAD_TAGLEN, NULL),
	        OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, NULL, 0),
	        OSSL_PARAM_END,
	};
	(void)vctx;
	(void)provider;
	return table;
}

static const OSSL_PARAM *gcm_settable(void *vctx, void *provider)
{
	static const OSSL_PARAM table[] = {
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL),
	        OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
	        OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, NULL, 0),
	        OSSL_PARAM_END,
	};
	(void)vctx;
	(void)provider;
	return table;
}

/* ---- the provider ---- */

#define FN(id, fn)                       \
	{                                \
		id, (void (*)(void))(fn) \
	}

static const OSSL_DISPATCH gcm_functions[] = {
        FN(OSSL_FUNC_CIPHER_NEWCTX, gcm_new),
        FN(OSSL_FUNC_CIPHER_FREECTX, gcm_free),
        FN(OSSL_FUNC_CIPHER_ENCRYPT_INIT, gcm_encrypt_init),
        FN(OSSL_FUNC_CIPHER_DECRYPT_INIT, gcm_decrypt_init),
        FN(OSSL_FUNC_CIPHER_UPDATE, gcm_update),
        FN(OSSL_FUNC_CIPHER_FINAL, gcm_final),
        FN(OSSL_FUNC_CIPHER_GET_PARAMS, gcm_get_params),
        FN(OSSL_FUNC_CIPHER_GET_CTX_PARAMS, gcm_get),
        FN(OSSL_FUNC_CIPHER_SET_CTX_PARAMS, gcm_set),
        FN(OSSL_FUNC_CIPHER_GETTABLE_PARAMS, gcm_gettable_params),
        FN(OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, gcm_gettable),
        FN(OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, gcm_settable),
        {0, NULL},
};

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache)
{
	static const OSSL_ALGORITHM ciphers[] = {
	        {"AES-128-GCM:id-aes128-GCM:2.16.840.1.101.3.4.1.6", "provider=" NAME,
	         gcm_functions, "AES-128-GCM with VAES"},
	        {0},
	};
	(void)provider;
	*no_cache = 0;
	return operation == OSSL_OP_CIPHER ? ciphers : NULL;
}

static int provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                         const OSSL_DISPATCH **out, void **provider)
{
	static const OSSL_DISPATCH functions[] = {
	        FN(OSSL_FUNC_PROVIDER_QUERY_OPERATION, query),
	        {0, NULL},
	};
	(void)in;
	*out = functions;
	*provider = (void *)handle;
	return 1;
}

/* ---- availability ---- */

/* Do the processor and the operating system support AVX-512, VAES and VPCLMULQDQ? */
static bool has_vaes(void)
{
	unsigned a, b, c, d;
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	       __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 9) && (c & 1u << 10);
}

/* The structures are those of this header's version only. */
static bool open_library(void)
{
	unsigned (*version)(void) = NULL;
	IMB_MGR *(*alloc)(uint64_t) = NULL;
	void (*init)(IMB_MGR *, IMB_ARCH *) = NULL;
	const struct library_function functions[] = {{"imb_get_version", &version},
	                                             {"alloc_mb_mgr", &alloc},
	                                             {"init_mb_mgr_auto", &init}};
	const struct library library = {.names = {"libIPSec_MB.so.1"},
	                                .purpose = "for AES-GCM with AVX-512",
	                                .package = "libipsec-mb1",
	                                .prefix = "",
	                                .functions = functions,
	                                .nfunctions = sizeof functions / sizeof *functions};
	if (library_open(&library, NULL) < 0 || version() != IMB_VERSION_NUM || !(mgr = alloc(0)))
		return false;
	init(mgr, NULL);
	return mgr->gcm128_pre && mgr->gcm128_init && mgr->gcm128_enc_update &&
	       mgr->gcm128_dec_update && mgr->gcm128_enc_finalize && mgr->gcm128_dec_finalize;
}

static void unload(void)
{
	OSSL_PROVIDER_unload(wide);
	OSSL_PROVIDER_unload(standard);
}

/* After a provider is loaded by name, OpenSSL no longer loads its own by itself. */
static bool load(void)
{
	return OSSL_PROVIDER_add_builtin(NULL, NAME, provider_init) == 1 &&
	       (standard = OSSL_PROVIDER_load(NULL, "default")) &&
	       (wide = OSSL_PROVIDER_load(NULL, NAME)) && OPENSSL_atexit(unload) == 1;
}

const char *tls_gcm_properties(void)
{
	static bool asked, there;
	if (!asked) {
		asked = true;
		there = has_vaes() && open_library() && load();
	}
	return there ? "?provider=" NAME : NULL;
}

const char *tls_gcm_library(void)
{
	return tls_gcm_properties() ? IMB_VERSION_STR : NULL;
}

#else

#include <stddef.h>

const char *tls_gcm_properties(void)
{
	return NULL;
}

const char *tls_gcm_library(void)
{
	return NULL;
}

#endif
