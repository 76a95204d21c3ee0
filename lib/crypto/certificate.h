/*
 * X.509 certificates of ranks: whom a certificate names, and why it is refused.
 *
 * A certificate names a rank by the URI "collctl:rank:N" in its subjectAltName, and a host by a DNS
 * name or an IP address in its subjectAltName. The common name is ignored (RFC 9525). One thread.
 */
#ifndef COLLCTL_CRYPTO_CERTIFICATE_H
#define COLLCTL_CRYPTO_CERTIFICATE_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define CERTIFICATE_RANK_URI "collctl:rank:"
#define CERTIFICATE_TEXT     100

/* The subject for messages, "CN=rank 2"; if it is empty, the first name in subjectAltName. Returns
 * @text. */
char *certificate_text(X509 *, char text[CERTIFICATE_TEXT]);

/* The end of its validity, "2027-01-31 12:00:00 UTC". */
void certificate_end(const X509 *, char *text, size_t cap);

/* The rank that it names. -1: none; -2: several; -3: the URI has no valid number. */
int certificate_rank(X509 *);

/* Is it a certificate for @rank? If it names ranks, @rank must be one of them. Else it must name
 * @host, the rank's host by the hostfile (NULL: there is no hostfile). 0; -1: ERR_AUTH says whom it
 * names. */
int certificate_check(X509 *, int rank, const char *host, struct err *err);

/* Write to @text[cap] why a verification failed: "expired on 2026-01-31 12:00:00 UTC". @error is
 * X509_V_ERR_*. @at (may be NULL) is the certificate that failed, @depth issuers above the rank's.
 * @ca, @crl (NULL: none): the names of the files, for the message. */
void certificate_refusal(int error, X509 *at, int depth, const char *ca, const char *crl,
                         char *text, size_t cap);

#endif
