/*
 * A small CA for mutual TLS: makes certificates of ranks and hosts (certificate.h), and lists those
 * that are revoked. Keys are P-256; all texts are PEM.
 */
#ifndef COLLCTL_CRYPTO_AUTHORITY_H
#define COLLCTL_CRYPTO_AUTHORITY_H

#include "lib/base/err.h"
#include "lib/crypto/credentials.h"

struct issued {
	char *cert, *key; /* malloced */
	char until[40];   /* the end of its validity */
};

/* A CA with the common name @name (NULL: another one each time). */
int authority_make(const char *name, int days, struct issued *out, struct err *err);
/* Is @ca (credentials.h), in @file, a CA that may sign certificates? -1: ERR_INPUT. */
int authority_check(const struct credentials *ca, const char *file, struct err *err);
/* A certificate signed by @ca, of @rank or, with @host, of that host. It is never valid longer than
 * the CA. */
int authority_issue(const struct credentials *ca, int rank, const char *host, int days,
                    struct issued *out, struct err *err);
/* Add the certificate in @cert_file to the revocation list @list_file of @ca, which need not exist.
 * Returns the new list, malloced. NULL: ERR_INPUT if the CA has not issued the certificate. */
char *authority_revoke(const struct credentials *ca, const char *list_file, const char *cert_file,
                       struct err *err);
void issued_release(struct issued *);

#endif
