/*
 * The HTTP client of the stores, over libcurl, which is opened at run time (dlopen) by commands
 * that need a store. It sends one request at a time and blocks until the answer or a deadline.
 * Transient failures are retried with a bounded back-off, at most a few times a second. The size of
 * answers is limited. Redirects are not followed. No proxy is used, even if the environment names
 * one, because the local address of the connection to the store is the address that a rank
 * advertises.
 *
 * If the URL has several hosts, they serve one store: after a failure the next host is tried. For
 * https the trusted certificates are those of ca_file; else those of CURL_CA_BUNDLE or
 * SSL_CERT_FILE; else the system's.
 *
 * One thread at a time, except http_wake.
 *
 * Errors: ERR_RENDEZVOUS names the URL of the last host; ERR_AUTH: a certificate does not verify;
 * ERR_USAGE: the URL is not usable; ERR_RESOURCE, also if libcurl is missing; ERR_OTHER,
 * "interrupted": see store_interrupt.
 */
#ifndef COLLCTL_STORE_HTTP_H
#define COLLCTL_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/store/store.h"

#define HTTP_BODY_MAX ((size_t)128 << 10) /* bytes of an answer */
#define HTTP_KEY_MAX  1024                /* bytes of a key, its prefix included */
#define HTTP_WAIT_MAX (30 * NS_PER_SEC)   /* the longest wait of one blocking query */
#define HTTP_TIME     (10 * NS_PER_SEC)   /* the limit for the answer to any other request */

/* How a kind of store uses HTTP. */
struct http_dialect {
	int default_port; /* 0: the scheme's */
	bool several;     /* the URL may have several hosts */
	const char *type; /* Content-Type of the bodies that are sent */
	/* Called for each header line of an answer, with its CRLF and without a NUL. May be
	 * NULL. */
	void (*on_header)(struct store *, const char *line, size_t len);
	/* Write to @text a message from the body of an error. Pure. May be NULL. */
	void (*explain)(const char *body, size_t len, char *text, size_t cap);
};

struct http_request {
	const char *method; /* "GET", "POST", ... */
	const char *path;   /* begins with "/"; with the query, percent-encoded */
	const char *retry;  /* the path for tries after a failure; NULL: the same */
	const void *data;   /* the body; NULL: none */
	size_t len;
	int64_t limit; /* ns for one try */
	/* Is this beginning of the body sufficient, so that the request may end? NULL: wait for the
	 * end of the body. */
	bool (*is_enough)(void *ctx, const char *body, size_t len);
	void *ctx;
};

struct http {
	/* the last answer; owned by the client, valid until the next request */
	long status; /* neither 3xx nor a transient failure */
	char *body;
	size_t body_len;
	int tries; /* of the last http_send */
	/* private */
	struct http_client *client;
};

/* Opens no connection yet. The URL: [NAME+]http[s]://HOST[:PORT][,HOST[:PORT]...][/PREFIX]. The
 * dialect and @store must outlive the client, which asks during requests whether the store is
 * interrupted, and reports to it the first failure after which http_send tries again
 * (store_failed). On failure there is nothing to release. */
int http_init(struct http *, const struct http_dialect *, const struct store_conf *,
              struct store *store, struct err *err);
/* Also wipes the answer and the secret. */
void http_release(struct http *);

/* Owned by the client: the URL's path, "/team/x" or ""; the URL of the last host, for messages. The
 * number of hosts. */
const char *http_prefix(const struct http *);
const char *http_name(const struct http *);
int http_hosts(const struct http *);

/* Send the header "NAME: VALUE" with each further request; it replaces that of the previous call.
 * @value NULL: send none. ERR_USAGE: @value has a line break or is too long. */
int http_set_secret(struct http *, const char *name, const char *value, struct err *err);

/* Send @r, and repeat it until it is answered or @deadline (clock_ns()) has passed. 0: it was
 * answered with a status other than 3xx, 408, 429 and 5xx. -1: a permanent failure, or the
 * deadline; @err is the last error. */
int http_send(struct http *, const struct http_request *r, int64_t deadline, struct err *err);
/* Try once, for at most r->limit. After a failure the next request goes to the next host. */
int http_send_once(struct http *, const struct http_request *r, int64_t deadline, struct err *err);

/* How long, in ns, a blocking query may wait so that its answer arrives before @deadline; 0: there
 * is no time to wait. */
int64_t http_wait_time(int64_t deadline);
/* Make a running request ask at once whether the store is interrupted. Any thread may call this. */
void http_wake(struct http *);
/* As store_local_address. */
int http_local_address(const struct http *, char *buf, size_t cap);

/* Write @s to [@at, @end), percent-encoded except for unreserved characters and '/'. Returns the
 * end of the text; NULL: no room. */
char *http_encode(char *at, const char *end, const char *s);

/* The version of libcurl; NULL: it cannot be used. */
const char *http_library(void);

#endif
