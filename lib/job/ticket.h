/*
 * The ticket of `collctl invite`: all that a rank needs to join a job, as one word that a person
 * can send: where the store is, how many ranks there are, the job's name, and a key from which the
 * secret and the store's token are derived. Whoever has the ticket can join, or read the job's
 * data, so it is handled as a secret.
 *
 * As text: "cc1-", then base32 (RFC 4648, small letters, no padding) of
 *     key        TICKET_KEY bytes
 *     name       8 bytes: the job is "invite-" and their hex digits
 *     expires    u32: seconds since 1970, by the inviter's clock
 *     size       u16 ranks
 *     port       u16
 *     addresses  u8, then for each its length, u8, and its text
 *     check      u32: of all bytes before it, for typing errors (XXH32)
 * Integers are little-endian.
 */
#ifndef COLLCTL_JOB_TICKET_H
#define COLLCTL_JOB_TICKET_H

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/crypto/secret.h"
#include "lib/net/addr.h"

#define TICKET_KEY       16   /* bytes */
#define TICKET_ADDRESSES 8    /* at most */
#define TICKET_TEXT      2048 /* bytes of a text with its NUL */
#define TICKET_JOB       24   /* of a job's name with its NUL */
#define TICKET_TOKEN     65   /* of the store's token with its NUL */
#define TICKET_SIZE_MAX  UINT16_MAX

struct ticket {
	uint8_t key[TICKET_KEY], name[8];
	uint32_t expires;
	int size, port;
	int naddresses;
	char addresses[TICKET_ADDRESSES][ADDR_TEXT]; /* hosts, without ports */
};

/* Draw the key and the name. ERR_RESOURCE. */
int ticket_draw(struct ticket *, struct err *err);
void ticket_encode(const struct ticket *, char text[TICKET_TEXT]);
/* Decode @text, which may have blanks at its ends and capitals. ERR_USAGE says what is wrong with
 * it, and never shows any of it. */
int ticket_decode(struct ticket *, const char *text, struct err *err);

/* What is derived from it. ERR_RESOURCE. */
void ticket_job(const struct ticket *, char name[TICKET_JOB]);
int ticket_secret(const struct ticket *, struct secret *, struct err *err);
int ticket_token(const struct ticket *, char token[TICKET_TOKEN], struct err *err);

/* The URL of the store, in @url[cap]: of the address that accepts a connection first; all are tried
 * at once, for at most @wait ns. Of the first address if none does. Names are resolved, which may
 * block. */
void ticket_reach(const struct ticket *, int64_t wait, char *url, size_t cap);

#endif
