#include "lib/crypto/credentials.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/private.h"
#include "lib/crypto/certificate.h"
#include "lib/crypto/crypto.h"

#define KEY_MAX (64u << 10) /* bytes of the key's file */
#define TRIES   3           /* on a terminal */

struct credentials {
	const char *cert_file, *ca, *crl;
	X509 *cert;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
	X509_STORE *store;
};

/* @path cannot be used because of @what, unless memory ran out. */
static int unusable(const char *path, const char *what, struct err *err)
{
	if (crypto_lacked_memory())
		return err_set(err, ERR_RESOURCE, "%s: out of memory", path);
	return err_set(err, ERR_AUTH, "%s: %s", path, what);
}

/* ---- certificates and revocation lists ---- */

static STACK_OF(X509_INFO) * read_pem(const char *path, struct err *err)
{
	BIO *bio = crypto_open(path, ERR_AUTH, err);
	if (!bio)
		return NULL;
	STACK_OF(X509_INFO) *infos = PEM_X509_INFO_read_bio(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (!infos)
		unusable(path, "not valid PEM", err);
	return infos;
}

static void free_pem(STACK_OF(X509_INFO) * infos)
{
	sk_X509_INFO_pop_free(infos, X509_INFO_free);
}

/* The first certificate is the rank's, the others lead to its CA. */
static int read_chain(struct credentials *c, struct err *err)
{
	STACK_OF(X509_INFO) *infos = read_pem(c->cert_file, err);
	if (!infos)
		return -1;
	c->chain = sk_X509_new_null();
	bool ok = c->chain;
	for (int i = 0; ok && i < sk_X509_INFO_num(infos); i++) {
		X509_INFO *info = sk_X509_INFO_value(infos, i);
		if (!info->x509)
			continue;
		if (!c->cert)
			c->cert = info->x509;
		else
			ok = sk_X509_push(c->chain, info->x509) > 0;
		if (ok)
			info->x509 = NULL;
	}
	free_pem(infos);
	if (!c->cert || !ok)
		return unusable(c->cert_file, "no certificate in it (PEM)", err);
	int bytes = i2d_X509(c->cert, NULL);
	for (int i = 0; i < sk_X509_num(c->chain); i++)
		bytes += i2d_X509(sk_X509_value(c->chain, i), NULL);
	return bytes <= (int)CREDENTIALS_CHAIN_MAX
	               ? 0
	               : err_set(err, ERR_AUTH, "%s: its certificates have %d bytes, more than %u",
	                         c->cert_file, bytes, CREDENTIALS_CHAIN_MAX);
}

/* Add what @path contains to the CAs or, with @lists, to the revocation lists. */
static int read_store(struct credentials *c, const char *path, bool lists, struct err *err)
{
	STACK_OF(X509_INFO) *infos = read_pem(path, err);
	int n = 0;
	bool ok = true;
	if (!infos)
		return -1;
	for (int i = 0; ok && i < sk_X509_INFO_num(infos); i++) {
		X509_INFO *info = sk_X509_INFO_value(infos, i);
		if (lists && info->crl) {
			ok = X509_STORE_add_crl(c->store, info->crl);
			n++;
		} else if (!lists && info->x509) {
			ok = X509_STORE_add_cert(c->store, info->x509);
			n++;
		}
	}
	free_pem(infos);
	if (ok && n)
		return 0;
	return unusable(
	        path, lists ? "no revocation list in it (PEM)" : "no certificate in it (PEM)", err);
}

static int read_trusted(struct credentials *c, struct err *err)
{
	c->store = X509_STORE_new();
	if (!c->store)
		return err_nomem(err, "the certificates of the CA", 0);
	if (read_store(c, c->ca, false, err) < 0)
		return -1;
	/* The CA may itself be an issuer below another one. */
	X509_STORE_set_flags(c->store, X509_V_FLAG_PARTIAL_CHAIN);
	if (!c->crl)
		return 0;
	X509_STORE_set_flags(c->store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	return read_store(c, c->crl, true, err);
}

/* ---- the key ---- */

/* Where OpenSSL gets the password of an encrypted key. */
struct password {
	const struct credentials_conf *conf;
	const char *file;
	bool asked;
	struct err *err;
};

/* The length of its first line. */
static int first_line(char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);
	if (end)
		len = (size_t)(end - text);
	return (int)(len && text[len - 1] == '\r' ? len - 1 : len);
}

static int give_password(char *text, int cap, int writing, void *ctx)
{
	struct password *p = ctx;
	char question[300], from[40];
	ssize_t len;
	(void)writing;
	cap--; /* OpenSSL may add a NUL */
	p->asked = true;
	if (p->conf->password_fd >= 0) {
		snprintf(from, sizeof from, "file descriptor %d", p->conf->password_fd);
		len = private_fd(p->conf->password_fd, from, text, (size_t)cap, p->err);
		return len < 0 ? -1 : first_line(text, (size_t)len);
	}
	snprintf(question, sizeof question, "password of %.250s: ", p->file);
	len = p->conf->ask ? p->conf->ask(question, text, (size_t)cap) : -1;
	if (len < 0)
		err_set(p->err, ERR_AUTH,
		        "%s: is encrypted, and its password cannot be asked for here: give it "
		        "by a file descriptor (--tls-key-password-fd N)",
		        p->file);
	return (int)len;
}

static int decode_key(struct credentials *c, struct password *p, const void *pem, int len)
{
	int tries = p->conf->password_fd < 0 ? TRIES : 1;
	for (int i = 0; i < tries && !c->key && !p->err->code; i++) {
		BIO *bio = BIO_new_mem_buf(pem, len);
		p->asked = false;
		ERR_clear_error();
		c->key = bio ? PEM_read_bio_PrivateKey(bio, NULL, give_password, p) : NULL;
		BIO_free(bio);
		if (!p->asked)
			break;
	}
	if (c->key)
		return 0;
	return unusable(p->file, p->asked ? "the password is wrong" : "no private key in it (PEM)",
	                p->err);
}

static int read_key(struct credentials *c, const struct credentials_conf *conf, struct err *err)
{
	struct password p = {.conf = conf, .file = conf->key ? conf->key : conf->cert, .err = err};
	char *pem = err_malloc(KEY_MAX, "a private key", err);
	if (!pem)
		return -1;
	ssize_t len = private_file(p.file, "a key cannot come from a pipe", pem, KEY_MAX, err);
	int ret = len < 0 ? -1 : decode_key(c, &p, pem, (int)len);
	wipe(pem, KEY_MAX);
	free(pem);
	if (ret < 0 || X509_check_private_key(c->cert, c->key) == 1)
		return ret;
	char why[300];
	snprintf(why, sizeof why, "is not the key of the certificate in %.200s", conf->cert);
	return unusable(p.file, why, err);
}

/* ---- all of it ---- */

void credentials_refusal(const struct credentials *c, X509_STORE_CTX *v, char *text, size_t cap)
{
	certificate_refusal(X509_STORE_CTX_get_error(v), X509_STORE_CTX_get_current_cert(v),
	                    X509_STORE_CTX_get_error_depth(v), c->ca, c->crl, text, cap);
}

/* The user trusts the CAs of --tls-ca: no list of an issuer above them is needed. */
int credentials_tolerate(X509_STORE_CTX *v)
{
	int depth = X509_STORE_CTX_get_error_depth(v);
	if (X509_STORE_CTX_get_error(v) != X509_V_ERR_UNABLE_TO_GET_CRL || depth == 0 ||
	    depth != sk_X509_num(X509_STORE_CTX_get0_chain(v)) - 1)
		return 0;
	X509_STORE_CTX_set_error(v, X509_V_OK);
	return 1;
}

static int on_verified(int ok, X509_STORE_CTX *v)
{
	return ok || credentials_tolerate(v);
}

/* The other ranks will refuse a certificate for these reasons; this rank can say it at once. */
static int verify_own(const struct credentials *c, const SSL_CTX *tls, struct err *err)
{
	char why[400];
	X509_STORE_CTX *v = X509_STORE_CTX_new();
	int ret = 0;
	if (!v || !X509_STORE_CTX_init(v, c->store, c->cert, c->chain)) {
		X509_STORE_CTX_free(v);
		return unusable(c->cert_file, "cannot be verified", err);
	}
	X509_STORE_CTX_set_verify_cb(v, on_verified);
	X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(v),
	                                 SSL_CTX_get_security_level(tls));
	if (X509_verify_cert(v) != 1) {
		credentials_refusal(c, v, why, sizeof why);
		ret = unusable(c->cert_file, why, err);
	}
	X509_STORE_CTX_free(v);
	return ret;
}

/* Any rank may have to take either end of a connection. A CA's own need not. */
static int check_purposes(const struct credentials *c, struct err *err)
{
	char why[400];
	if (X509_check_ca(c->cert) ||
	    (X509_check_purpose(c->cert, X509_PURPOSE_SSL_CLIENT, 0) == 1 &&
	     X509_check_purpose(c->cert, X509_PURPOSE_SSL_SERVER, 0) == 1))
		return 0;
	certificate_refusal(X509_V_ERR_INVALID_PURPOSE, c->cert, 0, c->ca, c->crl, why, sizeof why);
	return unusable(c->cert_file, why, err);
}

/* Can TLS connections show the certificate? Later, only lack of memory prevents it. */
static int check_tls(const struct credentials *c, SSL_CTX *tls, struct err *err)
{
	char why[300];
	if (SSL_CTX_use_cert_and_key(tls, c->cert, c->key, c->chain, 1) == 1)
		return 0;
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	snprintf(why, sizeof why, "TLS cannot use it: %.200s", reason ? reason : "unknown reason");
	return unusable(c->cert_file, why, err);
}

/* As the peers will judge the certificate. */
static int check_own(const struct credentials *c, struct err *err)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_method());
	if (!tls)
		return unusable(c->cert_file, "OpenSSL has no TLS", err);
	int ret = verify_own(c, tls, err) < 0 || check_purposes(c, err) < 0 ||
	                          check_tls(c, tls, err) < 0
	                  ? -1
	                  : 0;
	SSL_CTX_free(tls);
	return ret;
}

struct credentials *credentials_load(const struct credentials_conf *conf, struct err *err)
{
	if (crypto_begin(err) < 0)
		return NULL;
	struct credentials *c = err_calloc(1, sizeof *c, "certificates", err);
	if (!c)
		return NULL;
	ERR_clear_error();
	c->cert_file = conf->cert;
	c->ca = conf->ca;
	c->crl = conf->crl;
	if (read_chain(c, err) == 0 && read_trusted(c, err) == 0 && read_key(c, conf, err) == 0 &&
	    check_own(c, err) == 0)
		return c;
	credentials_free(c);
	return NULL;
}

void credentials_free(struct credentials *c)
{
	if (!c)
		return;
	X509_free(c->cert);
	sk_X509_pop_free(c->chain, X509_free);
	EVP_PKEY_free(c->key);
	X509_STORE_free(c->store);
	free(c);
}

X509 *credentials_certificate(const struct credentials *c)
{
	return c->cert;
}

EVP_PKEY *credentials_key(const struct credentials *c)
{
	return c->key;
}

void credentials_forget_key(struct credentials *c)
{
	EVP_PKEY_free(c->key);
	c->key = NULL;
}

void credentials_trust(const struct credentials *c, SSL_CTX *ctx)
{
	SSL_CTX_set1_cert_store(ctx, c->store);
}

int credentials_show(const struct credentials *c, SSL *ssl)
{
	return SSL_use_cert_and_key(ssl, c->cert, c->key, c->chain, 1) == 1 ? 0 : -1;
}
