/*
 * The record by which ranks find the coordinator. In the store, the key "collctl/JOB" has the value
 * {"v":1,"addr":"192.0.2.7:4242","nonce":"...","mac":"..."}. mac is an HMAC with a key from the
 * job's secret; without a secret (--insecure, or certificates) it is missing. So whoever controls
 * the store can only deny service. Pure, except that record_encode draws the nonce.
 */
#ifndef COLLCTL_STORE_RECORD_H
#define COLLCTL_STORE_RECORD_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"

#define RECORD_NONCE 33 /* bytes of the text, with its NUL; likewise: */
#define RECORD_MAC   65

/* In place of an address, in a record of `collctl invite`: why nobody can join any more. */
#define RECORD_USED    "!used" /* all ranks have joined */
#define RECORD_EXPIRED "!expired"
#define RECORD_ENDED   "!ended" /* the job has ended before all had joined and agreed */

struct record {
	char addr[ADDR_TEXT];
	char nonce[RECORD_NONCE];
	char mac[RECORD_MAC]; /* "": none */
};

/* The job that a record is for. */
struct record_of {
	const char *key, *job;
	const struct secret *secret; /* NULL: there is none */
};

/* Encode @rec: the caller has set its addr; this sets its nonce and mac. Returns the text,
 * malloced; NULL: ERR_RESOURCE. */
char *record_encode(const struct record_of *, struct record *rec, struct err *err);

/* Decode @text[len], which is not trusted: every field is checked, and with a secret the MAC is
 * verified. 1: it is the job's record; 0: it is not, and @why[cap] says why; -1: ERR_RESOURCE. */
int record_decode(const struct record_of *, const char *text, size_t len, struct record *rec,
                  char *why, size_t cap, struct err *err);

#endif
