/*
 * What a rank needs for mutual TLS: its certificate, the key of that, and the CA whose certificates
 * it accepts. All files are PEM.
 */
#ifndef COLLCTL_NET_CREDENTIALS_H
#define COLLCTL_NET_CREDENTIALS_H

#include <openssl/types.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Ask the user. The length of the answer in @text, without its newline; -1: there is no terminal.
 */
typedef int ask_password(const char *question, char *text, size_t cap);

struct credentials_conf {
	const char *cert;  /* the rank's certificate, then those of its issuers below the CA's */
	const char *key;   /* NULL: it is in @cert */
	const char *ca;    /* one or more CAs */
	const char *crl;   /* revocation lists of all issuers; NULL: nothing is revoked */
	int password_fd;   /* has the password of an encrypted key; -1: ask */
	ask_password *ask; /* NULL: nobody can be asked */
};

struct credentials;

/* Reads the files, and verifies the rank's own certificate as others will. ERR_AUTH names the file
 * and its defect. The key's file must be private (private.h). @conf's strings must stay valid. */
struct credentials *credentials_load(const struct credentials_conf *, struct err *err);
void credentials_free(struct credentials *);

/* Of @credentials. */
X509 *credentials_certificate(const struct credentials *);
EVP_PKEY *credentials_key(const struct credentials *);

/* From now on connections of @ctx show the certificate. 0; -1: OpenSSL's error. */
int credentials_use(const struct credentials *, SSL_CTX *ctx);
/* certificate_refusal with the names of these files. */
void credentials_refusal(const struct credentials *, X509_STORE_CTX *, char *text, size_t cap);

#endif
