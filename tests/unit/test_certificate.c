/* Whom a certificate names, and for which rank it counts. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "lib/crypto/certificate.h"
#include "tests/unit/unit.h"

static EVP_PKEY *key;

/* A certificate with these names, in the words of openssl's configuration. */
static X509 *with(const char *cn, const char *names)
{
	X509 *x = X509_new();
	X509V3_CTX ctx;
	assert_non_null(x);
	X509_set_version(x, X509_VERSION_3);
	if (cn)
		X509_NAME_add_entry_by_NID(X509_get_subject_name(x), NID_commonName, MBSTRING_UTF8,
		                           (const unsigned char *)cn, -1, -1, 0);
	if (names) {
		X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
		X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, names);
		assert_non_null(ext);
		X509_add_ext(x, ext, -1);
		X509_EXTENSION_free(ext);
	}
	X509_set_pubkey(x, key);
	/* The names are read from the encoded form. */
	assert_true(X509_sign(x, key, EVP_sha256()));
	return x;
}

static int rank_in(const char *names)
{
	X509 *x = with("rank 7", names);
	int rank = certificate_rank(x);
	X509_free(x);
	return rank;
}

TEST(ranks)
{
	assert_int_equal(rank_in(NULL), -1);
	assert_int_equal(rank_in("DNS:rank"), -1);
	assert_int_equal(rank_in("URI:collctl:rank:0"), 0);
	assert_int_equal(rank_in("URI:collctl:rank:65535"), 65535);
	assert_int_equal(rank_in("DNS:a,IP:10.0.0.1,URI:collctl:rank:3,URI:https://x"), 3);
	assert_int_equal(rank_in("URI:collctl:rank:3,URI:collctl:rank:3"), 3);
	assert_int_equal(rank_in("URI:collctl:rank:3,URI:collctl:rank:4"), -2);
	assert_int_equal(rank_in("URI:collctl:rank:3,URI:collctl:rank:4,URI:collctl:rank:3"), -2);
	/* Nearly the URI of a rank: such a certificate counts for nobody. */
	assert_int_equal(rank_in("URI:collctl:rank:"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:01"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:-1"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:1x"), -3);
	assert_int_equal(rank_in("URI:collctl:rank: 1"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:9999999999"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:4294967296"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:3,URI:collctl:rank:x"), -3);
	assert_int_equal(rank_in("URI:collctl:rank:x,URI:collctl:rank:3"), -3);
	assert_int_equal(rank_in("URI:xcollctl:rank:1"), -1);
	assert_int_equal(rank_in("DNS:collctl.rank.1"), -1);
	assert_int_equal(rank_in("email:collctl@rank.1"), -1);
}

/* NULL: it is that rank's; else what the error must contain. */
static void check(const char *names, int rank, const char *host, const char *why)
{
	struct err err = {.rank = ERR_RANK_SELF};
	X509 *x = with("who", names);
	int ret = certificate_check(x, rank, host, &err);
	X509_free(x);
	assert_int_equal(ret, why ? -1 : 0);
	if (!why)
		return;
	assert_int_equal(err.code, ERR_AUTH);
	assert_non_null(strstr(err.text, "CN=who"));
	assert_non_null(strstr(err.text, why));
}

TEST(whose_it_is)
{
	check("URI:collctl:rank:2", 2, NULL, NULL);
	check("URI:collctl:rank:2", 2, "elsewhere", NULL);
	check("URI:collctl:rank:2", 1, NULL, "is that of rank 2, not 1");
	/* A rank in it counts more than a host. */
	check("URI:collctl:rank:2,DNS:node", 1, "node", "is that of rank 2, not 1");
	check("URI:collctl:rank:2,URI:collctl:rank:5", 5, NULL, NULL);
	check("URI:collctl:rank:2,URI:collctl:rank:5", 3, NULL, "several ranks, but not of rank 3");
	check("DNS:node", 1, NULL, "only with a hostfile");
	check("DNS:node", 1, "node", NULL);
	check("DNS:NODE", 1, "node", NULL);
	check("DNS:node", 1, "node2", "its host, node2");
	check("DNS:node", 1, "node.lab", "its host, node.lab");
	check("DNS:*.lab.org", 1, "node.lab.org", "its host");
	check("DNS:node,URI:collctl:rank:x", 1, "node", "is not a rank's number");
	check("URI:collctl:rank:1,URI:collctl:rank:x", 1, "node", "is not a rank's number");
	check("DNS:n*.lab.org", 1, "node.lab.org", "its host");
	check("DNS:*.lab.org", 1, "a.node.lab.org", "its host");
	check("IP:10.0.0.7", 1, "10.0.0.7", NULL);
	check("IP:10.0.0.7", 1, "10.0.0.8", "its host");
	check("IP:fd00::7", 1, "fd00:0::7", NULL);
	check("DNS:10.0.0.7", 1, "10.0.0.7", "its host");
	/* The common name does not count. */
	check(NULL, 1, "who", "its host, who");
	check("DNS:other", 1, "who", "its host, who");
}

static void text_is(const char *cn, const char *names, const char *want)
{
	char text[CERTIFICATE_TEXT];
	X509 *x = with(cn, names);
	assert_string_equal(certificate_text(x, text), want);
	X509_free(x);
}

TEST(texts)
{
	char long_name[65];
	text_is("rank 2", NULL, "CN=rank 2");
	text_is(NULL, "IP:10.0.0.1,DNS:node,URI:collctl:rank:2", "node");
	text_is(NULL, NULL, "without a name");
	text_is("a\033[31mb\nc", NULL, "CN=a\\1B[31mb\\0Ac");
	memset(long_name, 'x', 64);
	long_name[64] = '\0';
	X509 *x = with(long_name, NULL);
	char text[CERTIFICATE_TEXT];
	assert_int_equal(strlen(certificate_text(x, text)), 67);
	X509_free(x);
}

TEST(refusals)
{
	static const struct {
		int error, depth;
		const char *want;
	} cases[] = {
	        {X509_V_ERR_CERT_HAS_EXPIRED, 0, "expired on "},
	        {X509_V_ERR_CERT_HAS_EXPIRED, 1, "its issuer CN=who expired on "},
	        {X509_V_ERR_CERT_NOT_YET_VALID, 0, "is valid only from "},
	        {X509_V_ERR_CERT_REVOKED, 0, "is revoked by list.crl"},
	        {X509_V_ERR_UNABLE_TO_GET_CRL, 0, "list.crl has no revocation list"},
	        {X509_V_ERR_CRL_HAS_EXPIRED, 0, "in list.crl has expired"},
	        {X509_V_ERR_CRL_NOT_YET_VALID, 0, "in list.crl is not valid yet"},
	        {X509_V_ERR_CRL_SIGNATURE_FAILURE, 0, "list.crl is not signed by"},
	        {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, 0, "is not a CA in ca.pem"},
	        {X509_V_ERR_INVALID_PURPOSE, 0, "serverAuth and clientAuth"},
	        {X509_V_ERR_PATH_LENGTH_EXCEEDED, 0, "path length"},
	};
	char text[300];
	X509 *x = with("who", NULL);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		certificate_refusal(cases[i].error, x, cases[i].depth, "ca.pem", "list.crl", text,
		                    sizeof text);
		if (!strstr(text, cases[i].want))
			fail_msg("'%s' is not in '%s'", cases[i].want, text);
		certificate_refusal(cases[i].error, NULL, 0, "ca.pem", NULL, text, sizeof text);
		assert_true(*text);
	}
	X509_free(x);
}

static int make_key(void **state)
{
	key = EVP_EC_gen("P-256");
	return key ? 0 : -1;
}

static int free_key(void **state)
{
	EVP_PKEY_free(key);
	return 0;
}

int main(void)
{
	return unit_run(make_key, free_key);
}
