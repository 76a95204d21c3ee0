#include "lib/store/record.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hex.h"
#include "lib/base/json.h"
#include "lib/base/private.h"
#include "lib/crypto/crypto.h"

static int make_mac(const struct record_of *of, const struct record *rec, char mac[RECORD_MAC],
                    struct err *err)
{
	uint8_t key[32], sum[32];
	char text[ADDR_TEXT + RECORD_NONCE + 160];
	int n = snprintf(text, sizeof text, "record|1|%s|%s|%s", of->job, rec->addr, rec->nonce);
	int ret = secret_derive(of->secret->key, SECRET_BYTES, "record", 6, key, sizeof key, err);
	if (ret == 0)
		ret = secret_mac(key, sizeof key, text, (size_t)n, sum, err);
	wipe(key, sizeof key);
	if (ret == 0)
		hex_text(sum, sizeof sum, mac);
	return ret;
}

char *record_encode(const struct record_of *of, struct record *rec, struct err *err)
{
	uint8_t nonce[16];
	if (crypto_random(nonce, sizeof nonce, err) < 0)
		return NULL;
	hex_text(nonce, sizeof nonce, rec->nonce);
	rec->mac[0] = '\0';
	if (of->secret && make_mac(of, rec, rec->mac, err) < 0)
		return NULL;
	json_t *j = json_pack("{s:i,s:s,s:s}", "v", 1, "addr", rec->addr, "nonce", rec->nonce);
	if (j && rec->mac[0])
		json_object_set_new(j, "mac", json_string(rec->mac));
	char *text = j ? json_text(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		err_nomem(err, "the record", 256);
	return text;
}

/* 1: the text has a record's fields; 0: it does not; -1: out of memory. */
static int parse(const char *text, size_t len, struct record *rec, struct err *err)
{
	const char *addr = "", *nonce = "", *mac = "";
	int v = 0;
	json_forget_memory();
	json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	bool ok = j &&
	          json_unpack(j, "{s:i,s:s,s:s,s?s}", "v", &v, "addr", &addr, "nonce", &nonce,
	                      "mac", &mac) == 0 &&
	          v == 1 && strlen(addr) < sizeof rec->addr && strlen(nonce) < sizeof rec->nonce &&
	          strlen(mac) < sizeof rec->mac;
	if (ok) {
		strcpy(rec->addr, addr);
		strcpy(rec->nonce, nonce);
		strcpy(rec->mac, mac);
	}
	json_decref(j);
	if (json_lacked_memory())
		return err_nomem(err, "the record in the store", len);
	return ok;
}

/* 1: the MAC is the job's; 0: it is not; -1: out of memory. */
static int verify(const struct record_of *of, const struct record *rec, struct err *err)
{
	char want[RECORD_MAC];
	struct err why = ERR_INIT;
	if (!rec->mac[0])
		return 0;
	if (make_mac(of, rec, want, &why) == 0)
		return CRYPTO_memcmp(want, rec->mac, RECORD_MAC - 1) == 0;
	return why.code == ERR_RESOURCE ? err_set(err, why.code, "%s", why.text) : 0;
}

int record_decode(const struct record_of *of, const char *text, size_t len, struct record *rec,
                  char *why, size_t cap, struct err *err)
{
	*rec = (struct record){0};
	int is = parse(text, len, rec, err);
	if (is < 0)
		return -1;
	if (is == 0) {
		snprintf(why, cap, "the value of %s is not a record of collctl", of->key);
		return 0;
	}
	if (!of->secret) {
		if (rec->mac[0])
			snprintf(why, cap,
			         "the record %s has a MAC, so rank 0 has a secret: this rank has "
			         "none (--insecure or --tls-cert)",
			         of->key);
		return !rec->mac[0];
	}
	int verified = verify(of, rec, err);
	if (verified == 0)
		snprintf(
		        why, cap,
		        rec->mac[0]
		                ? "a record exists whose MAC does not verify (%s): it was tampered "
		                  "with, or the secrets differ"
		                : "a record exists without a MAC (%s): rank 0 has --insecure or "
		                  "--tls-cert, this rank a secret",
		        of->key);
	return verified;
}
