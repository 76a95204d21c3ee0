/*
 * What a rank needs for mutual TLS: its certificate, its private key, and the CAs whose
 * certificates it accepts. All files are PEM. One thread.
 */
#ifndef COLLCTL_CRYPTO_CREDENTIALS_H
#define COLLCTL_CRYPTO_CREDENTIALS_H

#include <openssl/types.h>
#include <stddef.h>

#include "lib/base/err.h"

/* Ask the user @question, and write the answer without its newline to @text[cap]. Returns its
 * length; -1: there is no terminal. A signal ends the process as usual. */
typedef int ask_password(const char *question, char *text, size_t cap);

struct credentials_conf {
	const char *cert;  /* the rank's certificate, then those of the intermediate CAs */
	const char *key;   /* NULL: it is in @cert */
	const char *ca;    /* one or more CAs */
	const char *crl;   /* revocation lists of all issuers; NULL: no certificate is revoked */
	int password_fd;   /* to read the password of an encrypted key from; -1: call `ask` */
	ask_password *ask; /* NULL: an encrypted key is an error */
};

/* The most bytes that a rank's certificates may have, as DER. */
#define CREDENTIALS_CHAIN_MAX (32u << 10)

struct credentials;

/* Read the files, and verify the rank's certificate as its peers will. The key's file must be
 * private (private.h). The strings of @conf must outlive the result. NULL: ERR_AUTH names the file
 * and its defect. */
struct credentials *credentials_load(const struct credentials_conf *, struct err *err);
void credentials_free(struct credentials *); /* NULL: nothing */
/* The certificate and the private key. The credentials own them. */
X509 *credentials_certificate(const struct credentials *);
EVP_PKEY *credentials_key(const struct credentials *);

/* Free the key. Afterwards no connection can be made with these credentials. */
void credentials_forget_key(struct credentials *);

/* Make connections of @ctx accept certificates that the CAs have signed. */
void credentials_trust(const struct credentials *, SSL_CTX *ctx);
/* Make @ssl present the certificate. SSL_certs_clear removes it after the handshake. -1: out of
 * memory. */
int credentials_show(const struct credentials *, SSL *ssl);
/* For the callback of a verification. 1: the failure is acceptable, and is cleared: an issuer above
 * the trusted CA has no revocation list; 0: it is not. */
int credentials_tolerate(X509_STORE_CTX *);
/* certificate_refusal with the names of these files. */
void credentials_refusal(const struct credentials *, X509_STORE_CTX *, char *text, size_t cap);

#endif
