/*
 * A small CA for mutual TLS: issues certificates for ranks and hosts (certificate.h), and writes
 * the list of revoked ones. Its keys are P-256; all texts are PEM. One thread.
 *
 * Sources: RFC 5280 (certificates and revocation lists), RFC 9525 (names).
 */
#ifndef COLLCTL_CRYPTO_AUTHORITY_H
#define COLLCTL_CRYPTO_AUTHORITY_H

#include "lib/base/err.h"
#include "lib/crypto/credentials.h"

struct issued {
	char *cert, *key; /* PEM; malloced, freed by issued_release */
	char until[40];   /* the end of its validity, as certificate_end writes it */
};

/* Make a CA with the common name @name (NULL: a random one), valid for @days. ERR_OTHER; *out is
 * empty then, as in authority_issue. */
int authority_make(const char *name, int days, struct issued *out, struct err *err);
/* Is @ca (credentials.h), in @file, a CA that may sign certificates? -1: ERR_INPUT. */
int authority_check(const struct credentials *ca, const char *file, struct err *err);
/* Issue a certificate, signed by @ca and valid for @days, but not longer than the CA: for @host or,
 * if that is NULL, for @rank. ERR_OTHER. */
int authority_issue(const struct credentials *ca, int rank, const char *host, int days,
                    struct issued *out, struct err *err);
/* Add the certificate in @cert_file to the revocation list of @ca in @list_file, which need not
 * exist. Returns the new list, malloced; writes no file. NULL: ERR_INPUT for a file that is
 * malformed or unreadable, or if @ca did not issue the certificate or sign the list. */
char *authority_revoke(const struct credentials *ca, const char *list_file, const char *cert_file,
                       struct err *err);
void issued_release(struct issued *); /* wipes the key; idempotent */

#endif
