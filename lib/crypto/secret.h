/*
 * The job secret: 32 random bytes, from which every key of a job is derived (HKDF-SHA256). It is
 * read from a file, a descriptor or COLLCTL_SECRET, never from argv. As text it is 64 hex digits.
 * The caller wipes it with secret_wipe. Thread-safe.
 */
#ifndef COLLCTL_CRYPTO_SECRET_H
#define COLLCTL_CRYPTO_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define SECRET_BYTES 32
#define SECRET_TEXT  66 /* 64 hex digits, newline, NUL */

struct secret {
	uint8_t key[SECRET_BYTES];
};

/* Draw a secret; @text gets its digits and a newline. ERR_RESOURCE. */
int secret_generate(struct secret *, char text[SECRET_TEXT], struct err *);
/* Only the text, without a newline: for an environment variable. */
int secret_random_text(char text[SECRET_TEXT], struct err *);
/* Read a secret. ERR_AUTH: the file is missing or malformed, others may access it, or it belongs to
 * neither this user nor root. The message names the file and the defect, never the content. */
int secret_from_file(struct secret *, const char *path, struct err *);
/* The same from a descriptor of a pipe or a file, which it reads to the end and closes. */
int secret_from_fd(struct secret *, int fd, struct err *);
/* The same from @hex. @origin: its name in messages, such as "COLLCTL_SECRET". */
int secret_from_text(struct secret *, const char *hex, const char *origin, struct err *);
void secret_wipe(struct secret *);

/* Derive @out[out_len] from @key by HKDF-SHA256 (hkdf.h); @info may have any bytes.
 * ERR_RESOURCE. */
int secret_derive(const uint8_t *key, size_t key_len, const void *info, size_t info_len,
                  uint8_t *out, size_t out_len, struct err *);
/* HMAC-SHA256. ERR_RESOURCE. */
int secret_mac(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[32],
               struct err *);

#endif
