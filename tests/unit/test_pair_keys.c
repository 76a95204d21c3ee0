/* The keys of the pairs of ranks: what they are, and that every pair has another one. */
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/job/pair_keys.h"
#include "tests/unit/unit.h"

static const char known[] = "thirty-two bytes for this test..";
static bool draws_known;

/* In place of OpenSSL's: the key that pair_keys_new draws. */
int RAND_priv_bytes(unsigned char *buf, int num)
{
	if (!draws_known)
		return RAND_bytes(buf, num);
	assert_int_equal(num, 32);
	memcpy(buf, known, 32);
	return 1;
}

static struct pair_keys *open_keys(void)
{
	struct err err = {0};
	struct pair_keys *k = pair_keys_new(&err);
	assert_non_null(k);
	return k;
}

static void get(struct pair_keys *k, int a, int b, uint8_t key[TLS_KEY_BYTES])
{
	struct err err = {0};
	memset(key, 0, TLS_KEY_BYTES);
	assert_int_equal(pair_keys_get(k, a, b, key, &err), 0);
}

/* HKDF-Expand by other functions of OpenSSL. */
TEST(is_hkdf_expand)
{
	static const int pairs[][2] = {{0, 1}, {0, 65535}, {65534, 65535}, {11, 1}, {7, 7}};
	uint8_t key[TLS_KEY_BYTES], want[TLS_KEY_BYTES];
	char info[64];
	size_t len;
	draws_known = true;
	struct pair_keys *k = open_keys();
	draws_known = false;
	for (int i = 0; i < 5; i++) {
		int a = pairs[i][0], b = pairs[i][1];
		int n = snprintf(info, sizeof info, "pair|%d|%d%c", a < b ? a : b, a < b ? b : a,
		                 1);
		assert_non_null(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, known, 32,
		                          (uint8_t *)info, (size_t)n, want, sizeof want, &len));
		get(k, a, b, key);
		assert_memory_equal(key, want, sizeof key);
		get(k, b, a, key);
		assert_memory_equal(key, want, sizeof key);
	}
	pair_keys_free(k);
}

TEST(every_pair_has_another)
{
	enum { N = 24 };
	static uint8_t keys[N][N][TLS_KEY_BYTES];
	struct pair_keys *k = open_keys(), *other = open_keys();
	uint8_t key[TLS_KEY_BYTES];
	for (int a = 0; a < N; a++)
		for (int b = 0; b < N; b++)
			get(k, a, b, keys[a][b]);
	for (int a = 0; a < N; a++)
		for (int b = 0; b <= a; b++) {
			assert_memory_equal(keys[a][b], keys[b][a], sizeof key);
			for (int c = 0; c < N; c++)
				for (int d = 0; d <= c; d++)
					if (a != c || b != d)
						assert_memory_not_equal(keys[a][b], keys[c][d],
						                        sizeof key);
			get(other, a, b, key); /* of another job */
			assert_memory_not_equal(keys[a][b], key, sizeof key);
		}
	pair_keys_free(k);
	pair_keys_free(other);
	pair_keys_free(NULL);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
