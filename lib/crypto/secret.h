/*
 * The job secret: 32 random bytes, from which every key of a job is derived (HKDF-SHA256).
 * Read from a file, a descriptor or COLLCTL_SECRET, never from argv. Wiped on release.
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

int secret_generate(struct secret *, char text[SECRET_TEXT], struct err *);
/* 64 random hex digits without a newline: a secret or a token for COLLCTL_SECRET and its like. */
int secret_random_text(char text[SECRET_TEXT], struct err *);
/* A file that others may read, or that belongs to neither this user nor root, is refused (ERR_AUTH,
 * with the command that corrects it). A missing or malformed file is ERR_AUTH too; the message
 * names the file and the defect, never the content. */
int secret_from_file(struct secret *, const char *path, struct err *);
/* The same from a descriptor of a pipe or a file. Reads to the end, and closes it. */
int secret_from_fd(struct secret *, int fd, struct err *);
/* @origin: its name in messages, such as "COLLCTL_SECRET". */
int secret_from_text(struct secret *, const char *hex, const char *origin, struct err *);
void secret_wipe(struct secret *);

/* HKDF-SHA256(key, salt = "collctl 1", info) -> out. @info: any bytes. */
int secret_derive(const uint8_t *key, size_t key_len, const void *info, size_t info_len,
                  uint8_t *out, size_t out_len, struct err *);
/* HMAC-SHA256, 32 bytes. */
int secret_mac(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[32],
               struct err *);

#endif
