#include "lib/crypto/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/evp.h>

#include "lib/base/hex.h"
#include "lib/base/private.h"
#include "lib/crypto/crypto.h"
#include "lib/crypto/hkdf.h"

#define HEX_DIGITS ((size_t)2 * SECRET_BYTES)

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int secret_generate(struct secret *s, char text[SECRET_TEXT], struct err *err)
{
	size_t got = 0;

	while (got < sizeof s->key) {
		ssize_t n = getrandom(s->key + got, sizeof s->key - got, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, ERR_RESOURCE, "random bytes");
		got += (size_t)n;
	}
	hex_text(s->key, sizeof s->key, text);
	memcpy(text + HEX_DIGITS, "\n", 2);
	return 0;
}

int secret_random_text(char text[SECRET_TEXT], struct err *err)
{
	struct secret s;
	int ret = secret_generate(&s, text, err);
	secret_wipe(&s);
	if (ret == 0)
		text[HEX_DIGITS] = '\0';
	return ret;
}

/* Messages describe the text only by length and position, because it may be a secret
 * nevertheless. */
static int parse(struct secret *s, const char *text, size_t len, const char *origin,
                 struct err *err)
{
	if (len && text[len - 1] == '\n')
		len--;
	for (size_t i = 0; i < len && i < HEX_DIGITS; i++) {
		int v = hex_value(text[i]);
		if (v < 0) {
			secret_wipe(s);
			return err_set(err, ERR_AUTH, "%s: character %zu is not a hex digit",
			               origin, i + 1);
		}
		uint8_t high = i % 2 ? s->key[i / 2] : 0;
		s->key[i / 2] = (uint8_t)(high | v << (i % 2 ? 0 : 4));
	}
	if (len == HEX_DIGITS)
		return 0;
	secret_wipe(s);
	if (len > HEX_DIGITS)
		return err_set(err, ERR_AUTH, "%s: longer than the %zu hex digits of a secret",
		               origin, HEX_DIGITS);
	return err_set(err, ERR_AUTH,
	               "%s: %zu characters instead of the %zu hex digits that 'collctl keygen' "
	               "writes",
	               origin, len, HEX_DIGITS);
}

int secret_from_text(struct secret *s, const char *hex, const char *origin, struct err *err)
{
	return parse(s, hex, strnlen(hex, HEX_DIGITS + 2), origin, err);
}

/* One byte more than a secret can have, so that a longer text is detected. */
#define READ_MAX (HEX_DIGITS + 2)

int secret_from_file(struct secret *s, const char *path, struct err *err)
{
	char text[READ_MAX];
	ssize_t len = private_file(path, "a pipe is given by number, as --secret-fd", text,
	                           sizeof text, err);
	int ret = len < 0 ? -1 : parse(s, text, (size_t)len, path, err);
	wipe(text, sizeof text);
	return ret;
}

int secret_from_fd(struct secret *s, int fd, struct err *err)
{
	char origin[40], text[READ_MAX];
	snprintf(origin, sizeof origin, "file descriptor %d", fd);
	ssize_t len = private_fd(fd, origin, text, sizeof text, err);
	int ret = len < 0 ? -1 : parse(s, text, (size_t)len, origin, err);
	wipe(text, sizeof text);
	return ret;
}

void secret_wipe(struct secret *s)
{
	wipe(s, sizeof *s);
}

int secret_derive(const uint8_t *key, size_t key_len, const void *info, size_t info_len,
                  uint8_t *out, size_t out_len, struct err *err)
{
	if (hkdf(key, key_len, info, info_len, out, out_len) == 0)
		return 0;
	return crypto_failed(err, ERR_RESOURCE, "HKDF");
}

int secret_mac(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[32],
               struct err *err)
{
	size_t out_len = 0;

	if (EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, key_len, data, len, out, 32,
	              &out_len) &&
	    out_len == 32)
		return 0;
	return crypto_failed(err, ERR_RESOURCE, "HMAC");
}
