/*
 * The authenticated encryption of the records, by ipsec-mb and by OpenSSL, against the vectors of
 * Project Wycheproof in tests/golden/wycheproof_aead.txt: what is valid is made and read byte for
 * byte, what is not is refused. Vectors with an empty text have no record: a record has at least
 * its type.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/net/tls/tls_gcm.h"
#include "lib/net/tls/tls_record.h"
#include "tests/unit/unit.h"

#define MOST 1024 /* bytes of a field */

struct field {
	uint8_t bytes[MOST];
	size_t len;
};

/* "-" or hex digits. */
static void read_field(struct field *f, const char *text)
{
	unsigned byte;
	f->len = 0;
	for (; *text != '-' && *text; text += 2) {
		assert_true(f->len < MOST);
		assert_int_equal(sscanf(text, "%2x", &byte), 1);
		f->bytes[f->len++] = (uint8_t)byte;
	}
}

/* key, nonce, additional data, text, ciphertext, tag */
enum { KEY, IV, AAD, TEXT, CIPHER, TAG, FIELDS };

static void try_vector(const char *name, bool chacha, bool valid, struct field f[FIELDS])
{
	static const uint8_t secret[TLS_SECRET];
	uint8_t sealed[MOST + TLS_GCM_TAG], text[MOST], last;
	size_t n = f[TEXT].len - 1;
	struct err err = {0};
	struct tls_keys k;

	assert_int_equal(f[CIPHER].len, f[TEXT].len);
	assert_int_equal(f[TAG].len, TLS_GCM_TAG);
	assert_int_equal(f[IV].len, TLS_NONCE);
	for (int sends = 0; sends < 2; sends++) {
		assert_int_equal(tls_keys_init(&k, chacha ? 0x1303 : 0x1301, secret, sends, &err),
		                 0);
		assert_int_equal(f[KEY].len, k.key_len);
		assert_int_equal(tls_keys_set(&k, f[KEY].bytes), 0);
		if (sends && valid) {
			assert_true(tls_keys_seal(&k, f[IV].bytes, f[AAD].bytes, f[AAD].len,
			                          f[TEXT].bytes, n, f[TEXT].bytes[n], sealed));
			if (memcmp(sealed, f[CIPHER].bytes, n + 1) != 0 ||
			    memcmp(sealed + n + 1, f[TAG].bytes, TLS_GCM_TAG) != 0)
				fail_msg("%s: other bytes", name);
		} else if (!sends) {
			memcpy(sealed, f[CIPHER].bytes, n + 1);
			memcpy(sealed + n + 1, f[TAG].bytes, TLS_GCM_TAG);
			if (tls_keys_open(&k, f[IV].bytes, f[AAD].bytes, f[AAD].len, sealed, n,
			                  text, &last) != valid)
				fail_msg("%s: is %s", name, valid ? "refused" : "accepted");
			if (valid &&
			    (memcmp(text, f[TEXT].bytes, n) != 0 || last != f[TEXT].bytes[n]))
				fail_msg("%s: another text", name);
		}
		tls_keys_release(&k);
	}
}

static void run_vectors(void)
{
	const char *folder = getenv("COLLCTL_GOLDEN");
	char path[4096], line[8 * MOST], *words[3 + FIELDS], *at;
	int run = 0, invalid = 0, empty = 0;
	struct field f[FIELDS];

	snprintf(path, sizeof path, "%s/wycheproof_aead.txt", folder ? folder : "tests/golden");
	FILE *file = fopen(path, "r");
	if (!file)
		fail_msg("%s: cannot be read: run it in the repository's root", path);
	while (fgets(line, sizeof line, file)) {
		if (*line == '#')
			continue;
		int n = 0;
		for (char *w = strtok_r(line, " \n", &at); w && n < 3 + FIELDS;
		     w = strtok_r(NULL, " \n", &at))
			words[n++] = w;
		assert_int_equal(n, 3 + FIELDS);
		for (int i = 0; i < FIELDS; i++)
			read_field(&f[i], words[3 + i]);
		if (f[TEXT].len == 0) {
			empty++;
			continue;
		}
		char name[64];
		bool chacha = strcmp(words[0], "ChaCha20-Poly1305") == 0;
		bool valid = strcmp(words[2], "valid") == 0;
		snprintf(name, sizeof name, "%s %s", words[0], words[1]);
		try_vector(name, chacha, valid, f);
		run++;
		invalid += !valid;
	}
	fclose(file);
	assert_int_equal(run, 360);
	assert_int_equal(invalid, 67);
	assert_int_equal(empty, 23);
}

TEST(by_openssl)
{
	tls_gcm_disabled = true;
	run_vectors();
	tls_gcm_disabled = false;
}

TEST(by_wide_vectors)
{
	if (!tls_gcm_library()) {
		print_message("no ipsec-mb, or a processor without its vectors\n");
		skip();
	}
	run_vectors();
}

int main(void)
{
	return unit_run(NULL, NULL);
}
