#include "lib/crypto/certificate.h"
#include "lib/base/memory.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NO_RANK       (-1)
#define SEVERAL_RANKS (-2)
#define BAD_RANK      (-3)

/* ---- names ---- */

/* Others may have chosen the bytes: keep the printable ones. */
static void print_clean(char *text, size_t cap, const void *bytes, size_t len)
{
	const unsigned char *from = bytes;
	size_t n = 0;
	for (size_t i = 0; i < len && n + 1 < cap; i++)
		text[n++] = (char)(isprint(from[i]) ? from[i] : '?');
	text[n] = '\0';
}

static GENERAL_NAMES *names_of(X509 *x)
{
	return X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
}

/* The text of a DNS name or a URI; NULL: another kind. */
static const ASN1_STRING *text_of(const GENERAL_NAME *name)
{
	int kind;
	const void *value = GENERAL_NAME_get0_value(name, &kind);
	return kind == GEN_DNS || kind == GEN_URI ? value : NULL;
}

static void first_name(X509 *x, char *text, size_t cap)
{
	GENERAL_NAMES *names = names_of(x);
	for (int i = 0; names && !*text && i < sk_GENERAL_NAME_num(names); i++) {
		const ASN1_STRING *s = text_of(sk_GENERAL_NAME_value(names, i));
		if (s)
			print_clean(text, cap, ASN1_STRING_get0_data(s),
			            (size_t)ASN1_STRING_length(s));
	}
	GENERAL_NAMES_free(names);
}

static void name_text(const X509_NAME *name, char *text, size_t cap)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *bytes = NULL;
	text[0] = '\0';
	if (bio && X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE & ~XN_FLAG_SPC_EQ) >= 0) {
		long len = BIO_get_mem_data(bio, &bytes);
		print_clean(text, cap, bytes, len > 0 ? (size_t)len : 0);
	}
	BIO_free(bio);
}

char *certificate_text(X509 *x, char text[CERTIFICATE_TEXT])
{
	name_text(X509_get_subject_name(x), text, CERTIFICATE_TEXT);
	if (!*text)
		first_name(x, text, CERTIFICATE_TEXT);
	if (!*text)
		snprintf(text, CERTIFICATE_TEXT, "without a name");
	return text;
}

/* The number in "collctl:rank:N"; NO_RANK: another URI; BAD_RANK: N is not a rank's number. */
static int rank_of(const ASN1_STRING *uri)
{
	const char *text = (const char *)ASN1_STRING_get0_data(uri);
	size_t len = (size_t)ASN1_STRING_length(uri), prefix = strlen(CERTIFICATE_RANK_URI);
	int n = 0;
	if (len < prefix || memcmp(text, CERTIFICATE_RANK_URI, prefix) != 0)
		return NO_RANK;
	if (len == prefix || len > prefix + 9 || (text[prefix] == '0' && len > prefix + 1))
		return BAD_RANK;
	for (size_t i = prefix; i < len; i++) {
		if (!isdigit((unsigned char)text[i]))
			return BAD_RANK;
		n = n * 10 + (text[i] - '0');
	}
	return n;
}

/* The rank, or NO_RANK, SEVERAL_RANKS or BAD_RANK; *named: is @rank one of them? */
static int find_rank(X509 *x, int rank, bool *named)
{
	GENERAL_NAMES *names = names_of(x);
	int found = NO_RANK;
	*named = false;
	for (int i = 0; names && found != BAD_RANK && i < sk_GENERAL_NAME_num(names); i++) {
		int kind;
		const void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &kind);
		int n = kind == GEN_URI ? rank_of(value) : NO_RANK;
		if (n == NO_RANK)
			continue;
		*named |= n == rank;
		found = n == BAD_RANK || found == NO_RANK || found == n ? n : SEVERAL_RANKS;
	}
	GENERAL_NAMES_free(names);
	*named &= found != BAD_RANK;
	return found;
}

int certificate_rank(X509 *x)
{
	bool named;
	return find_rank(x, NO_RANK, &named);
}

static bool names_host(X509 *x, const char *host)
{
	unsigned char ip[sizeof(struct in6_addr)];
	if (inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1)
		return X509_check_ip_asc(x, host, 0) == 1;
	return X509_check_host(x, host, 0,
	                       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
	                       NULL) == 1;
}

int certificate_check(X509 *x, int rank, const char *host, struct err *err)
{
	char text[CERTIFICATE_TEXT];
	bool named;
	int own = find_rank(x, rank, &named);
	certificate_text(x, text);
	if (named || (own == NO_RANK && host && names_host(x, host)))
		return 0;
	if (memory_lacked()) /* names may be missing for that reason */
		return err_set(err, ERR_RESOURCE, "out of memory: cannot read a certificate");
	if (own >= 0)
		return err_set(err, ERR_AUTH, "the certificate %s is that of rank %d, not %d", text,
		               own, rank);
	if (own == BAD_RANK)
		return err_set(err, ERR_AUTH,
		               "the certificate %s has a URI %sN whose N is not a rank's number",
		               text, CERTIFICATE_RANK_URI);
	if (own == SEVERAL_RANKS)
		return err_set(err, ERR_AUTH,
		               "the certificate %s is that of several ranks, but not of rank %d",
		               text, rank);
	if (host)
		return err_set(err, ERR_AUTH,
		               "the certificate %s names neither rank %d (URI:%s%d) nor its host, "
		               "%.100s",
		               text, rank, CERTIFICATE_RANK_URI, rank, host);
	return err_set(err, ERR_AUTH,
	               "the certificate %s does not name rank %d (URI:%s%d); names of hosts "
	               "count only with a hostfile",
	               text, rank, CERTIFICATE_RANK_URI, rank);
}

/* ---- refusals ---- */

static const char *time_text(const ASN1_TIME *t, char *text, size_t cap)
{
	struct tm tm;
	if (!t || !ASN1_TIME_to_tm(t, &tm) || !strftime(text, cap, "%F %T UTC", &tm))
		snprintf(text, cap, "an unknown date");
	return text;
}

void certificate_end(const X509 *x, char *text, size_t cap)
{
	time_text(X509_get0_notAfter(x), text, cap);
}

void certificate_refusal(int error, X509 *at, int depth, const char *ca, const char *crl,
                         char *text, size_t cap)
{
	char when[40], name[CERTIFICATE_TEXT] = "an unknown CA", who[CERTIFICATE_TEXT + 16] = "";
	const char *list = crl ? crl : "--tls-crl";
	if (at && depth > 0)
		snprintf(who, sizeof who, "its issuer %s ", certificate_text(at, name));
	if (at)
		name_text(X509_get_issuer_name(at), name, sizeof name);
	switch (error) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		snprintf(text, cap, "%sexpired on %s", who,
		         time_text(at ? X509_get0_notAfter(at) : NULL, when, sizeof when));
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(text, cap, "%sis valid only from %s on: is this host's clock right?", who,
		         time_text(at ? X509_get0_notBefore(at) : NULL, when, sizeof when));
		break;
	case X509_V_ERR_CERT_REVOKED:
		snprintf(text, cap, "%sis revoked by %s", who, list);
		break;
	case X509_V_ERR_UNABLE_TO_GET_CRL:
		snprintf(text, cap, "%s has no revocation list of its issuer, %s", list, name);
		break;
	case X509_V_ERR_CRL_HAS_EXPIRED:
		snprintf(text, cap, "the revocation list of %s in %s has expired: get the new one",
		         name, list);
		break;
	case X509_V_ERR_CRL_NOT_YET_VALID:
		snprintf(text, cap,
		         "the revocation list of %s in %s is not valid yet: is this host's clock "
		         "right?",
		         name, list);
		break;
	case X509_V_ERR_CRL_SIGNATURE_FAILURE:
		snprintf(text, cap, "the revocation list in %s is not signed by %s", list, name);
		break;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		snprintf(text, cap, "its issuer, %s, is not a CA in %s (--tls-ca)", name, ca);
		break;
	case X509_V_ERR_INVALID_PURPOSE:
		snprintf(text, cap,
		         "%smay not be used for both ends of TLS connections: a key usage must "
		         "contain digitalSignature, an extended key usage serverAuth and "
		         "clientAuth",
		         who);
		break;
	case X509_V_ERR_EE_KEY_TOO_SMALL:
	case X509_V_ERR_CA_KEY_TOO_SMALL:
		snprintf(text, cap,
		         "%shas a key of %d bits, which OpenSSL's security level refuses here: use "
		         "RSA of at least 2048 bits, or P-256",
		         who, at ? EVP_PKEY_get_bits(X509_get0_pubkey(at)) : 0);
		break;
	case X509_V_ERR_CA_MD_TOO_WEAK:
		snprintf(
		        text, cap,
		        "%sis signed with %s, which OpenSSL's security level refuses here: sign it "
		        "with SHA-256",
		        who, at ? OBJ_nid2ln(X509_get_signature_nid(at)) : "a weak hash");
		break;
	default:
		snprintf(text, cap, "%s%s%s", who, *who ? "is refused: " : "",
		         X509_verify_cert_error_string(error));
	}
}
