/*
 * What a rank needs for mutual TLS: its certificate, the key of that, and the CA whose certificates
 * it accepts. All files are PEM.
 */
#ifndef COLLCTL_CRYPTO_CREDENTIALS_H
#define COLLCTL_CRYPTO_CREDENTIALS_H

#include <openssl/types.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Ask the user. The length of the answer in @text, which has room for @cap bytes, without its
 * newline; -1: there is no terminal. A signal ends the process as usual. */
typedef int ask_password(const char *question, char *text, size_t cap);

struct credentials_conf {
	const char *cert;  /* the rank's certificate, then those of its issuers below the CA's */
	const char *key;   /* NULL: it is in @cert */
	const char *ca;    /* one or more CAs */
	const char *crl;   /* revocation lists of all issuers; NULL: nothing is revoked */
	int password_fd;   /* has the password of an encrypted key; -1: ask */
	ask_password *ask; /* NULL: nobody can be asked */
};

/* Bytes of a rank's certificates, as DER. */
#define CREDENTIALS_CHAIN_MAX (32u << 10)

struct credentials;

/* Reads the files, and verifies the rank's own certificate as others will. ERR_AUTH names the file
 * and its defect. The key's file must be private (private.h). @conf's strings must stay valid. */
struct credentials *credentials_load(const struct credentials_conf *, struct err *err);
void credentials_free(struct credentials *);

/* Of @credentials. */
X509 *credentials_certificate(const struct credentials *);
EVP_PKEY *credentials_key(const struct credentials *);

/* Wipe the key: no connection can be made with it any more. */
void credentials_forget_key(struct credentials *);

/* Connections of @ctx accept what the CA has signed. */
void credentials_trust(const struct credentials *, SSL_CTX *ctx);
/* @ssl shows the certificate. SSL_certs_clear removes it after the handshake. -1: out of memory. */
int credentials_show(const struct credentials *, SSL *ssl);
/* In a callback of a verification: is this failure none? Then it is cleared. */
int credentials_tolerate(X509_STORE_CTX *);
/* certificate_refusal with the names of these files. */
void credentials_refusal(const struct credentials *, X509_STORE_CTX *, char *text, size_t cap);

#endif
