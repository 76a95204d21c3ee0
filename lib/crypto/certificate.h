/*
 * X.509 certificates of ranks: whom one names, and why one is refused.
 *
 * A certificate names a rank by the URI "collctl:rank:N" in its subjectAltName, and a host by a DNS
 * name or an address there. The common name does not count (RFC 9525).
 */
#ifndef COLLCTL_CRYPTO_CERTIFICATE_H
#define COLLCTL_CRYPTO_CERTIFICATE_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define CERTIFICATE_RANK_URI "collctl:rank:"
#define CERTIFICATE_TEXT     100

/* The subject for messages, "CN=rank 2"; without one, its first name. Returns @text. */
char *certificate_text(X509 *, char text[CERTIFICATE_TEXT]);

/* The end of its validity, "2027-01-31 12:00:00 UTC". */
void certificate_end(const X509 *, char *text, size_t cap);

/* The rank that it names. -1: it names none; -2: several; -3: no number. */
int certificate_rank(X509 *);

/* Is it the certificate of @rank? If it names ranks, the rank must be one of them; else it must
 * name @host (NULL: no hostfile gives the hosts of ranks). -1: ERR_AUTH says whom it names;
 * ERR_RESOURCE. */
int certificate_check(X509 *, int rank, const char *host, struct err *err);

/* Why the verification failed with @error (X509_V_ERR_*) at @at (may be NULL), which is
 * @depth issuers above the rank's own certificate. @ca, @crl (NULL: none): the files, for the
 * message. Writes "expired on 2026-01-31 12:00:00 UTC" and the like. */
void certificate_refusal(int error, X509 *at, int depth, const char *ca, const char *crl,
                         char *text, size_t cap);

#endif
