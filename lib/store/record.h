/*
 * The record by which ranks find the coordinator, at "collctl/JOB" in the store:
 * {"v":1,"addr":"192.0.2.7:4242","nonce":"...","mac":"..."}, with an HMAC keyed from the job's
 * secret; with --insecure it has no mac. Pure but for the nonce.
 */
#ifndef COLLCTL_STORE_RECORD_H
#define COLLCTL_STORE_RECORD_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"

#define RECORD_NONCE 33 /* bytes of the texts, with their NUL */
#define RECORD_MAC   65

struct record {
	char addr[ADDR_TEXT];
	char nonce[RECORD_NONCE];
	char mac[RECORD_MAC]; /* "": --insecure */
};

/* The job that a record is for. */
struct record_of {
	const char *key, *job;
	const struct secret *secret; /* NULL: --insecure */
};

/* The text of @rec, whose addr is set; fills in its nonce and mac. Malloced; NULL: an error. */
char *record_encode(const struct record_of *, struct record *rec, struct err *err);

/* Anybody may have written the @len bytes of @text: check every field, and use none before the MAC
 * is verified. 1: it is the job's record; 0: @why (@cap bytes) says why not; -1: out of memory.
 */
int record_decode(const struct record_of *, const char *text, size_t len, struct record *rec,
                  char *why, size_t cap, struct err *err);

#endif
