#include "lib/crypto/authority.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/hex.h"
#include "lib/base/memory.h"
#include "lib/base/private.h"
#include "lib/crypto/certificate.h"
#include "lib/crypto/crypto.h"

#define SERIAL_BITS 159 /* RFC 5280, 4.1.2.2: positive, at most 20 bytes */
#define SKEW        300 /* seconds by which the clocks of hosts may differ */
#define DAY         86400L

/* ---- certificates ---- */

static bool set_serial(X509 *x)
{
	BIGNUM *n = BN_new();
	bool ok = n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
	          BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

/* From now on, for @days, but not longer than @ca (NULL: none). */
static bool set_validity(X509 *x, int days, const X509 *ca)
{
	if (!X509_gmtime_adj(X509_getm_notBefore(x), -SKEW) ||
	    !X509_time_adj_ex(X509_getm_notAfter(x), days, 0, NULL))
		return false;
	return !ca || ASN1_TIME_compare(X509_get0_notAfter(x), X509_get0_notAfter(ca)) <= 0 ||
	       X509_set1_notAfter(x, X509_get0_notAfter(ca));
}

static bool set_subject(X509 *x, const char *name)
{
	return X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, MBSTRING_UTF8,
	                                  (const unsigned char *)name, -1, -1, 0);
}

static bool add_extension(X509 *x, X509 *ca, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509V3_set_ctx(&ctx, ca, x, NULL, NULL, 0);
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	bool ok = ext && X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	return ok;
}

static bool push_name(GENERAL_NAMES *names, int kind, int string_kind, const void *bytes,
                      size_t len)
{
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *s = ASN1_STRING_type_new(string_kind);
	bool ok = name && s && ASN1_STRING_set(s, bytes, (int)len);
	if (ok) {
		GENERAL_NAME_set0_value(name, kind, s);
		s = NULL;
		ok = sk_GENERAL_NAME_push(names, name) > 0;
	}
	ASN1_STRING_free(s);
	if (!ok)
		GENERAL_NAME_free(name);
	return ok;
}

static bool push_host(GENERAL_NAMES *names, const char *host)
{
	unsigned char ip[sizeof(struct in6_addr)];
	if (inet_pton(AF_INET, host, ip) == 1)
		return push_name(names, GEN_IPADD, V_ASN1_OCTET_STRING, ip, 4);
	if (inet_pton(AF_INET6, host, ip) == 1)
		return push_name(names, GEN_IPADD, V_ASN1_OCTET_STRING, ip, 16);
	return push_name(names, GEN_DNS, V_ASN1_IA5STRING, host, strlen(host));
}

static bool add_names(X509 *x, int rank, const char *host)
{
	char uri[40];
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	snprintf(uri, sizeof uri, "%s%d", CERTIFICATE_RANK_URI, rank);
	bool ok = names && (host ? push_host(names, host)
	                         : push_name(names, GEN_URI, V_ASN1_IA5STRING, uri, strlen(uri)));
	ok = ok && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
	GENERAL_NAMES_free(names);
	return ok;
}

/* Ed25519 and Ed448 have their own digest. */
static const EVP_MD *digest_for(const EVP_PKEY *key)
{
	return EVP_PKEY_is_a(key, "ED25519") || EVP_PKEY_is_a(key, "ED448") ? NULL : EVP_sha256();
}

static char *text_of(BIO *bio)
{
	char *bytes = NULL;
	long len = BIO_get_mem_data(bio, &bytes);
	char *text = len > 0 ? memory_malloc((size_t)len + 1) : NULL;
	if (!text)
		return NULL;
	memcpy(text, bytes, (size_t)len);
	text[len] = '\0';
	return text;
}

/* Takes the texts out of @x and @key. */
static bool put_texts(struct issued *out, X509 *x, EVP_PKEY *key)
{
	BIO *cert = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_secmem());
	if (cert && PEM_write_bio_X509(cert, x))
		out->cert = text_of(cert);
	if (secret && PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL))
		out->key = text_of(secret);
	BIO_free(cert);
	BIO_free(secret);
	certificate_end(x, out->until, sizeof out->until);
	return out->cert && out->key;
}

static X509 *blank(const char *name, EVP_PKEY *key, int days, X509 *ca)
{
	X509 *x = X509_new();
	if (x && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	    set_validity(x, days, ca) && set_subject(x, name) &&
	    X509_set_issuer_name(x, X509_get_subject_name(ca ? ca : x)) &&
	    X509_set_pubkey(x, key) &&
	    add_extension(x, ca ? ca : x, NID_subject_key_identifier, "hash"))
		return x;
	X509_free(x);
	return NULL;
}

static int finish(struct issued *out, X509 *x, EVP_PKEY *key, bool ok, struct err *err)
{
	ok = ok && put_texts(out, x, key);
	X509_free(x);
	EVP_PKEY_free(key);
	if (ok)
		return 0;
	issued_release(out);
	return crypto_failed(err, ERR_OTHER, "cannot make a certificate");
}

/* A bundle may have several CAs: without a name from the user each gets another. */
static int default_name(char *name, size_t cap, struct err *err)
{
	uint8_t random[4];
	char text[9];
	if (crypto_random(random, sizeof random, err) < 0)
		return -1;
	snprintf(name, cap, "collctl CA %s", hex_text(random, sizeof random, text));
	return 0;
}

int authority_make(const char *name, int days, struct issued *out, struct err *err)
{
	char own[32];
	*out = (struct issued){0};
	if (crypto_begin(err) < 0 || (!name && default_name(own, sizeof own, err) < 0))
		return -1;
	name = name ? name : own;
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = key ? blank(name, key, days, NULL) : NULL;
	bool ok = x && add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	          add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	          X509_sign(x, key, EVP_sha256());
	return finish(out, x, key, ok, err);
}

int authority_check(const struct credentials *ca, const char *file, struct err *err)
{
	X509 *x = credentials_certificate(ca);
	if (X509_check_ca(x) == 1 && X509_get_key_usage(x) & KU_KEY_CERT_SIGN)
		return 0;
	return err_set(err, ERR_INPUT,
	               "%s: is not the certificate of a CA (CA:TRUE, and keyCertSign in a key "
	               "usage)",
	               file);
}

int authority_issue(const struct credentials *ca, int rank, const char *host, int days,
                    struct issued *out, struct err *err)
{
	char name[65];
	X509 *issuer = credentials_certificate(ca);
	EVP_PKEY *signer = credentials_key(ca), *key = EVP_EC_gen("P-256");
	*out = (struct issued){0};
	if (host)
		snprintf(name, sizeof name, "%.64s", host);
	else
		snprintf(name, sizeof name, "rank %d", rank);
	X509 *x = key ? blank(name, key, days, issuer) : NULL;
	bool ok = x && add_extension(x, issuer, NID_authority_key_identifier, "keyid") &&
	          add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
	          add_extension(x, issuer, NID_key_usage, "critical,digitalSignature") &&
	          add_extension(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
	          add_names(x, rank, host) && X509_sign(x, signer, digest_for(signer));
	return finish(out, x, key, ok, err);
}

void issued_release(struct issued *i)
{
	free(i->cert);
	wipe_free(i->key);
	*i = (struct issued){0};
}

/* ---- revocation lists ---- */

static X509 *read_certificate(const char *path, struct err *err)
{
	BIO *bio = crypto_open(path, ERR_INPUT, err);
	if (!bio)
		return NULL;
	X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (!x && crypto_lacked_memory())
		err_nomem(err, "a certificate", 0);
	else if (!x)
		err_set(err, ERR_INPUT, "%s: no certificate in it (PEM)", path);
	return x;
}

/* The list in @path, which @issuer has signed; an empty one if there is no such file. */
static X509_CRL *read_list(const char *path, X509 *issuer, struct err *err)
{
	const bool first = access(path, F_OK) < 0 && errno == ENOENT;
	BIO *bio = first ? NULL : crypto_open(path, ERR_INPUT, err);
	if (!first && !bio)
		return NULL;
	X509_CRL *list = first ? X509_CRL_new() : PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (!list && crypto_lacked_memory())
		err_nomem(err, "a revocation list", 0);
	else if (!list)
		err_set(err, ERR_INPUT, "%s: no revocation list in it (PEM)", path);
	/* To sign the entries of another one would be to vouch for them. */
	if (list && !first && X509_CRL_verify(list, X509_get0_pubkey(issuer)) != 1) {
		X509_CRL_free(list);
		list = NULL;
		if (crypto_lacked_memory())
			err_nomem(err, "a revocation list", 0);
		else
			err_set(err, ERR_INPUT, "%s: this CA has not signed it", path);
	}
	ERR_clear_error();
	return list;
}

/* Lists are numbered (RFC 5280, 5.2.3). */
static bool count_up(X509_CRL *list)
{
	ASN1_INTEGER *number = X509_CRL_get_ext_d2i(list, NID_crl_number, NULL, NULL);
	int64_t n = 0;
	bool ok = !number || ASN1_INTEGER_get_int64(&n, number);
	if (!number)
		number = ASN1_INTEGER_new();
	ok = ok && number && ASN1_INTEGER_set_int64(number, n + 1) &&
	     X509_CRL_add1_ext_i2d(list, NID_crl_number, number, 0, X509V3_ADD_REPLACE) == 1;
	ASN1_INTEGER_free(number);
	return ok;
}

static bool add_revoked(X509_CRL *list, X509 *x, const ASN1_TIME *now)
{
	X509_REVOKED *entry = NULL;
	if (X509_CRL_get0_by_cert(list, &entry, x) == 1)
		return true; /* already */
	entry = X509_REVOKED_new();
	if (entry && X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(x)) &&
	    X509_REVOKED_set_revocationDate(entry, (ASN1_TIME *)now) &&
	    X509_CRL_add0_revoked(list, entry))
		return true;
	X509_REVOKED_free(entry);
	return false;
}

/* CAs may have the same name: the list says by which key it is signed. */
static bool name_signer(X509_CRL *list, X509 *ca)
{
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(ca);
	AUTHORITY_KEYID *signer = id ? AUTHORITY_KEYID_new() : NULL;
	if (!id)
		return true;
	if (signer)
		signer->keyid = ASN1_OCTET_STRING_dup(id);
	bool ok = signer && signer->keyid &&
	          X509_CRL_add1_ext_i2d(list, NID_authority_key_identifier, signer, 0,
	                                X509V3_ADD_REPLACE) == 1;
	AUTHORITY_KEYID_free(signer);
	return ok;
}

/* The list is valid as long as the CA: there is no service that would renew it. */
static bool sign_list(X509_CRL *list, X509 *ca, EVP_PKEY *key, const ASN1_TIME *now)
{
	return X509_CRL_set_version(list, X509_CRL_VERSION_2) &&
	       X509_CRL_set_issuer_name(list, X509_get_subject_name(ca)) &&
	       X509_CRL_set1_lastUpdate(list, now) &&
	       X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(ca)) && count_up(list) &&
	       name_signer(list, ca) && X509_CRL_sort(list) &&
	       X509_CRL_sign(list, key, digest_for(key));
}

static char *list_text(X509_CRL *list)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text = bio && PEM_write_bio_X509_CRL(bio, list) ? text_of(bio) : NULL;
	BIO_free(bio);
	return text;
}

char *authority_revoke(const struct credentials *ca, const char *list_file, const char *cert_file,
                       struct err *err)
{
	X509 *issuer = credentials_certificate(ca), *x;
	EVP_PKEY *key = credentials_key(ca);
	char *text = NULL;
	if (!(X509_get_key_usage(issuer) & KU_CRL_SIGN)) {
		err_set(err, ERR_INPUT,
		        "the key usage of this CA lacks cRLSign: its lists would be refused");
		return NULL;
	}
	x = read_certificate(cert_file, err);
	if (!x)
		return NULL;
	if (X509_cmp(x, issuer) == 0) {
		err_set(err, ERR_INPUT, "%s: is this CA, which cannot revoke itself", cert_file);
		X509_free(x);
		return NULL;
	}
	if (X509_verify(x, X509_get0_pubkey(issuer)) != 1) {
		if (crypto_lacked_memory())
			err_nomem(err, "a certificate", 0);
		else
			err_set(err, ERR_INPUT, "%s: this CA has not issued it", cert_file);
		X509_free(x);
		return NULL;
	}
	X509_CRL *list = read_list(list_file, issuer, err);
	ASN1_TIME *now = X509_gmtime_adj(NULL, -SKEW);
	if (list && now && add_revoked(list, x, now) && sign_list(list, issuer, key, now))
		text = list_text(list);
	if (!text && !err->code)
		crypto_failed(err, ERR_OTHER, "cannot make a revocation list");
	ASN1_TIME_free(now);
	X509_CRL_free(list);
	X509_free(x);
	return text;
}
