/*
 * AES-128-GCM by the processor's wide vectors: the same bytes as OpenSSL's own, and nothing that
 * was tampered with is taken. Skipped where processor or library are not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <openssl/evp.h>

#include "lib/net/tls_gcm.h"

#define MOST 20000
#define TAG  16

static uint64_t below(uint64_t *seed, uint64_t n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % n;
}

struct message {
	uint8_t key[16], iv[12], aad[64], text[MOST];
	size_t aad_len, len;
};

static void draw(struct message *m, uint64_t *seed)
{
	static const size_t edges[] = {0, 1, 15, 16, 17, 255, 256, 257, 16384, 16385};
	uint8_t *bytes = (uint8_t *)m;
	for (size_t i = 0; i < sizeof *m; i++)
		bytes[i] = (uint8_t)below(seed, 256);
	m->len = below(seed, 2) ? edges[below(seed, 10)] : below(seed, MOST);
	m->aad_len = below(seed, 2) ? 5 : below(seed, 65);
}

/* One way or the other with the cipher of @properties, the payload in up to @pieces updates. 1: the
 * tag is right. */
static int run(const char *properties, const struct message *m, int encrypt, int pieces,
               const uint8_t *in, uint8_t *out, uint8_t tag[TAG])
{
	EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-GCM", properties);
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	size_t done = 0;
	int n, ok;
	assert_non_null(cipher);
	assert_non_null(c);
	/* As TLS does: the key first, then for each record the nonce. */
	assert_int_equal(EVP_CipherInit_ex(c, cipher, NULL, m->key, NULL, encrypt), 1);
	assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_IVLEN, 12, NULL), 1);
	assert_int_equal(EVP_CipherInit_ex(c, NULL, NULL, NULL, m->iv, encrypt), 1);
	if (!encrypt)
		assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, TAG, tag), 1);
	assert_int_equal(EVP_CipherUpdate(c, NULL, &n, m->aad, (int)m->aad_len), 1);
	for (int i = 1; i <= pieces; i++) {
		size_t end = m->len * (size_t)i / (size_t)pieces;
		assert_int_equal(EVP_CipherUpdate(c, out + done, &n, in + done, (int)(end - done)),
		                 1);
		assert_int_equal(n, end - done);
		done = end;
	}
	ok = EVP_CipherFinal_ex(c, out + done, &n);
	assert_true(ok != 1 || n == 0);
	if (encrypt)
		assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, tag), 1);
	EVP_CIPHER_CTX_free(c);
	EVP_CIPHER_free(cipher);
	return ok == 1;
}

static void the_bytes_are_openssls(void **state)
{
	const char *wide = tls_gcm_properties();
	static struct message m;
	static uint8_t ours[MOST], theirs[MOST], back[MOST];
	uint8_t tag[TAG], want[TAG];
	uint64_t seed = 1;
	(void)state;
	if (!wide)
		skip();
	for (int i = 0; i < 2000; i++) {
		int pieces = 1 + (int)below(&seed, 4);
		draw(&m, &seed);
		assert_true(run(wide, &m, 1, pieces, m.text, ours, tag));
		assert_true(run("provider=default", &m, 1, 1, m.text, theirs, want));
		assert_memory_equal(ours, theirs, m.len);
		assert_memory_equal(tag, want, TAG);
		assert_true(run(wide, &m, 0, pieces, theirs, back, want));
		assert_memory_equal(back, m.text, m.len);
	}
}

static void what_was_tampered_with_is_refused(void **state)
{
	const char *wide = tls_gcm_properties();
	static struct message m;
	static uint8_t sealed[MOST], back[MOST];
	uint8_t tag[TAG];
	uint64_t seed = 2;
	(void)state;
	if (!wide)
		skip();
	for (int i = 0; i < 500; i++) {
		uint8_t *victim;
		size_t at;
		draw(&m, &seed);
		assert_true(run(wide, &m, 1, 1, m.text, sealed, tag));
		switch (below(&seed, 4)) {
		case 0:
			victim = tag;
			at = below(&seed, TAG);
			break;
		case 1:
			victim = m.iv;
			at = below(&seed, sizeof m.iv);
			break;
		case 2:
			victim = m.len ? sealed : tag;
			at = m.len ? below(&seed, m.len) : 0;
			break;
		default:
			victim = m.aad_len ? m.aad : tag;
			at = m.aad_len ? below(&seed, m.aad_len) : 0;
			break;
		}
		victim[at] ^= (uint8_t)(1u << below(&seed, 8));
		assert_false(run(wide, &m, 0, 1, sealed, back, tag));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_bytes_are_openssls),
	        cmocka_unit_test(what_was_tampered_with_is_refused),
	};
	return cmocka_run_group_tests_name("tls_gcm", tests, NULL, NULL);
}
