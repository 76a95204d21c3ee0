#include "lib/net/tls/tls_gcm.h"

bool tls_gcm_disabled;

#if defined(__x86_64__) && __has_include(<intel-ipsec-mb.h>)

#include <cpuid.h>
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>

#include "lib/base/library.h"

static IMB_MGR *mgr;

struct tls_gcm {
	struct gcm_key_data key; /* must be aligned */
	struct gcm_context_data ctx;
};

/* Do the processor and the operating system support AVX-512, VAES and VPCLMULQDQ? */
static bool has_vaes(void)
{
	unsigned a, b, c, d;
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	       __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 9) && (c & 1u << 10);
}

#ifdef COLLCTL_LINKED
/* All that AES-GCM needs; init_mb_mgr_auto would link 12 MB of other ciphers. */
extern __typeof__(*(aes_gcm_pre_t)0) aes_gcm_pre_128_vaes_avx512;
extern __typeof__(*(aes_gcm_init_t)0) aes_gcm_init_128_vaes_avx512;
extern __typeof__(*(aes_gcm_enc_dec_update_t)0) aes_gcm_enc_128_update_vaes_avx512,
        aes_gcm_dec_128_update_vaes_avx512;
extern __typeof__(*(aes_gcm_enc_dec_finalize_t)0) aes_gcm_enc_128_finalize_vaes_avx512,
        aes_gcm_dec_128_finalize_vaes_avx512;

static bool open_library(void)
{
	static IMB_MGR linked;

	linked.gcm128_pre = aes_gcm_pre_128_vaes_avx512;
	linked.gcm128_init = aes_gcm_init_128_vaes_avx512;
	linked.gcm128_enc_update = aes_gcm_enc_128_update_vaes_avx512;
	linked.gcm128_dec_update = aes_gcm_dec_128_update_vaes_avx512;
	linked.gcm128_enc_finalize = aes_gcm_enc_128_finalize_vaes_avx512;
	linked.gcm128_dec_finalize = aes_gcm_dec_128_finalize_vaes_avx512;
	mgr = &linked;
	return true;
}
#else
#define IMB_FUNCTIONS(X) X(imb_get_version) X(alloc_mb_mgr) X(init_mb_mgr_auto)
#define X(name)          __typeof__(name) *name;
static struct {
	IMB_FUNCTIONS(X)
} imb;
#undef X
#define X(name) {#name, &imb.name, NULL},
LIBRARY(libipsec, "tls", "for AES-GCM with AVX-512", "libipsec-mb1", "", IMB_FUNCTIONS(X), NULL,
        "libIPSec_MB.so.1");
#undef X

/* The structures are those of this header's version only. */
static bool open_library(void)
{
	if (library_open(&libipsec, NULL) < 0 || imb.imb_get_version() != IMB_VERSION_NUM ||
	    !(mgr = imb.alloc_mb_mgr(0)))
		return false;
	imb.init_mb_mgr_auto(mgr, NULL);
	return mgr->gcm128_pre && mgr->gcm128_init && mgr->gcm128_enc_update &&
	       mgr->gcm128_dec_update && mgr->gcm128_enc_finalize && mgr->gcm128_dec_finalize;
}
#endif

static bool there;

static void find_library(void)
{
	there = has_vaes() && open_library();
}

const char *tls_gcm_library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_library);
	return there && !tls_gcm_disabled ? IMB_VERSION_STR : NULL;
}

struct tls_gcm *tls_gcm_new(const uint8_t key[TLS_GCM_KEY])
{
	struct tls_gcm *g = aligned_alloc(_Alignof(struct tls_gcm), sizeof *g);
	if (g)
		IMB_AES128_GCM_PRE(mgr, key, &g->key);
	return g;
}

void tls_gcm_free(struct tls_gcm *g)
{
	if (g)
		OPENSSL_cleanse(g, sizeof *g);
	free(g);
}

void tls_gcm_seal(struct tls_gcm *g, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *text, size_t n, uint8_t last, uint8_t *out)
{
	IMB_AES128_GCM_INIT(mgr, &g->key, &g->ctx, nonce, aad, aad_len);
	if (n)
		IMB_AES128_GCM_ENC_UPDATE(mgr, &g->key, &g->ctx, out, text, n);
	IMB_AES128_GCM_ENC_UPDATE(mgr, &g->key, &g->ctx, out + n, &last, 1);
	IMB_AES128_GCM_ENC_FINALIZE(mgr, &g->key, &g->ctx, out + n + 1, TLS_GCM_TAG);
}

bool tls_gcm_open(struct tls_gcm *g, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *in, size_t n, uint8_t *text, uint8_t *last)
{
	uint8_t tag[TLS_GCM_TAG];
	IMB_AES128_GCM_INIT(mgr, &g->key, &g->ctx, nonce, aad, aad_len);
	if (n)
		IMB_AES128_GCM_DEC_UPDATE(mgr, &g->key, &g->ctx, text, in, n);
	IMB_AES128_GCM_DEC_UPDATE(mgr, &g->key, &g->ctx, last, in + n, 1);
	IMB_AES128_GCM_DEC_FINALIZE(mgr, &g->key, &g->ctx, tag, TLS_GCM_TAG);
	return CRYPTO_memcmp(tag, in + n + 1, TLS_GCM_TAG) == 0;
}

#else

const char *tls_gcm_library(void)
{
	return NULL;
}

struct tls_gcm *tls_gcm_new(const uint8_t key[TLS_GCM_KEY])
{
	(void)key;
	return NULL;
}

void tls_gcm_free(struct tls_gcm *g)
{
	(void)g;
}

void tls_gcm_seal(struct tls_gcm *g, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *text, size_t n, uint8_t last, uint8_t *out)
{
	(void)g, (void)nonce, (void)aad, (void)aad_len, (void)text, (void)n, (void)last, (void)out;
}

bool tls_gcm_open(struct tls_gcm *g, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *in, size_t n, uint8_t *text, uint8_t *last)
{
	(void)g, (void)nonce, (void)aad, (void)aad_len, (void)in, (void)n, (void)text, (void)last;
	return false;
}

#endif
