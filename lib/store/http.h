/*
 * The HTTP client of the stores: one request at a time, which blocks until its answer or a
 * deadline. libcurl is opened at run time (dlopen), only by commands that need a store. Transient
 * failures are retried with a bounded back-off, by a few requests a second at most. Bodies are
 * capped; redirects are not followed; no proxy is used, whatever the environment says: a job's
 * store is inside its network, and the address of the connection to it is the one that a rank
 * advertises.
 *
 * Several hosts are the members of one store: when one fails, the next is tried. For https the
 * certificates of ca_file, else of CURL_CA_BUNDLE or SSL_CERT_FILE, else the system's are trusted.
 *
 * Errors: ERR_RENDEZVOUS, with the URL of the host that was asked last; ERR_AUTH if a certificate
 * does not verify; ERR_USAGE for an unusable URL; ERR_RESOURCE; ERR_OTHER, "interrupted".
 */
#ifndef COLLCTL_STORE_HTTP_H
#define COLLCTL_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"

#define HTTP_BODY_MAX ((size_t)128 << 10) /* bytes of an answer */
#define HTTP_KEY_MAX  1024                /* bytes of a key, its prefix included */
#define HTTP_WAIT_MAX (30 * NS_PER_SEC)   /* of one request that waits for a change */
#define HTTP_TIME     (10 * NS_PER_SEC)   /* for the answer to any other request */

struct http_conf {
	/* [NAME+]http[s]://HOST[:PORT][,HOST[:PORT]...][/PREFIX] */
	const char *url;
	int default_port;                           /* 0: that of the scheme */
	bool several;                               /* hosts are allowed */
	const char *type;                           /* of the bodies that are sent */
	const char *ca_file, *cert_file, *key_file; /* PEM, or NULL */
	bool (*is_asked)(void *ctx);                /* true: stop */
	/* May be NULL: one header line as received, with its CRLF and without a NUL. */
	void (*on_header)(void *ctx, const char *line, size_t len);
	/* May be NULL: write to @text what the body of an error says, as a message. Pure. */
	void (*explain)(const char *body, size_t len, char *text, size_t cap);
	void *ctx;
};

struct http_request {
	const char *method; /* "GET", "POST", ... */
	const char *path;   /* from "/" on, with the query, percent-encoded */
	const char *retry;  /* the path after a failure; NULL: the same */
	const void *data;   /* the body; NULL: none */
	size_t len;
	int64_t limit; /* ns for one try */
	/* Is the part of the body that has come all that is needed? NULL: the end tells. */
	bool (*is_enough)(void *ctx, const char *body, size_t len);
	void *ctx;
};

struct http {
	/* the last answer */
	long status; /* neither 3xx nor a transient failure */
	char *body;
	size_t body_len;
	int tries; /* of the last http_send */
	/* private */
	struct http_client *client;
};

/* Opens no connection yet. */
int http_init(struct http *, const struct http_conf *, struct err *err);
/* The answer and the secret are wiped. */
void http_release(struct http *);

/* The URL's path, "/team/x" or "", and the URL of the host that was asked last, for messages. */
const char *http_prefix(const struct http *);
const char *http_name(const struct http *);
int http_hosts(const struct http *);

/* Send "NAME: VALUE" with each request from now on, in place of the last one. @value NULL: none.
 * ERR_USAGE if it has a line break or is too long. */
int http_set_secret(struct http *, const char *name, const char *value, struct err *err);

/* Send @r until it is answered. 0: answered, with any status but 3xx, 408, 429 and 5xx. -1: it
 * failed for good, or the deadline passed; @err is the latest error. */
int http_send(struct http *, const struct http_request *r, int64_t deadline, struct err *err);
/* One try of r->limit. After a failure the next request goes to the next host. */
int http_send_once(struct http *, const struct http_request *r, int64_t deadline, struct err *err);
/* Ask the next host from now on. */
void http_next_host(struct http *);

/* How long a request may wait for a change so that its answer comes before the deadline; 0: there
 * is no time to wait. */
int64_t http_wait_time(int64_t deadline);
/* From another thread: a running request calls is_asked now. */
void http_wake(struct http *);
int http_local_address(const struct http *, char *buf, size_t cap);

/* Percent-encode @s, except the unreserved characters and '/', at @at; NULL: no room. */
char *http_encode(char *at, const char *end, const char *s);

/* The version of libcurl; NULL: it can't be used. */
const char *http_library(void);

#endif
