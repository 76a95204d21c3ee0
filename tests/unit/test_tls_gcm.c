/*
 * AES-128-GCM by the processor's wide vectors: the same bytes as OpenSSL's own, and nothing that
 * was tampered with is taken. Skipped where processor or library are not there.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "lib/net/tls/tls_gcm.h"
#include "tests/unit/unit.h"

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

/* As OpenSSL encrypts the text and @last. */
static void openssl_seal(const struct message *m, uint8_t last, uint8_t *out)
{
	EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL);
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n;
	assert_non_null(cipher);
	assert_non_null(c);
	assert_int_equal(EVP_EncryptInit_ex(c, cipher, NULL, m->key, m->iv), 1);
	assert_int_equal(EVP_EncryptUpdate(c, NULL, &n, m->aad, (int)m->aad_len), 1);
	assert_int_equal(EVP_EncryptUpdate(c, out, &n, m->text, (int)m->len), 1);
	assert_int_equal(EVP_EncryptUpdate(c, out + m->len, &n, &last, 1), 1);
	assert_int_equal(EVP_EncryptFinal_ex(c, out + m->len + 1, &n), 1);
	assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, TAG, out + m->len + 1), 1);
	EVP_CIPHER_CTX_free(c);
	EVP_CIPHER_free(cipher);
}

TEST(the_bytes_are_openssls)
{
	static struct message m;
	static uint8_t ours[MOST + 1 + TAG], theirs[MOST + 1 + TAG], back[MOST];
	uint64_t seed = 1;
	if (!tls_gcm_library())
		skip();
	for (int i = 0; i < 2000; i++) {
		uint8_t last = (uint8_t)below(&seed, 256), got = (uint8_t)~last;
		draw(&m, &seed);
		struct tls_gcm *g = tls_gcm_new(m.key);
		assert_non_null(g);
		tls_gcm_seal(g, m.iv, m.aad, m.aad_len, m.text, m.len, last, ours);
		openssl_seal(&m, last, theirs);
		assert_memory_equal(ours, theirs, m.len + 1 + TAG);
		assert_true(tls_gcm_open(g, m.iv, m.aad, m.aad_len, theirs, m.len, back, &got));
		assert_memory_equal(back, m.text, m.len);
		assert_int_equal(got, last);
		/* in its place */
		assert_true(tls_gcm_open(g, m.iv, m.aad, m.aad_len, theirs, m.len, theirs, &got));
		assert_memory_equal(theirs, m.text, m.len);
		assert_int_equal(got, last);
		tls_gcm_free(g);
	}
}

TEST(what_was_tampered_with_is_refused)
{
	static struct message m;
	static uint8_t sealed[MOST + 1 + TAG], back[MOST];
	uint64_t seed = 2;
	uint8_t last;
	if (!tls_gcm_library())
		skip();
	for (int i = 0; i < 500; i++) {
		draw(&m, &seed);
		struct tls_gcm *g = tls_gcm_new(m.key);
		assert_non_null(g);
		tls_gcm_seal(g, m.iv, m.aad, m.aad_len, m.text, m.len, 23, sealed);
		uint8_t *victim = sealed;
		size_t size = m.len + 1 + TAG;
		switch (below(&seed, 3)) {
		case 0:
			victim = m.iv;
			size = sizeof m.iv;
			break;
		case 1:
			victim = m.aad_len ? m.aad : sealed;
			size = m.aad_len ? m.aad_len : size;
			break;
		}
		victim[below(&seed, size)] ^= (uint8_t)(1u << below(&seed, 8));
		assert_false(tls_gcm_open(g, m.iv, m.aad, m.aad_len, sealed, m.len, back, &last));
		tls_gcm_free(g);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
