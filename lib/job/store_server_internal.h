/*
 * What the files of the embedded store share, and nobody else sees: store_server.c has the server's
 * life, its connections and who waits; store_api.c what is asked and answered,
 * store_page.c the large answers.
 */
#ifndef COLLCTL_JOB_STORE_SERVER_INTERNAL_H
#define COLLCTL_JOB_STORE_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

#include "lib/job/kv.h"
#include "lib/job/store_server.h"
#include "lib/net/addr.h"

#define WAITERS_MAX 4096

#define MHD_FUNCTIONS(X)               \
	X(start_daemon)                \
	X(stop_daemon)                 \
	X(run)                         \
	X(get_timeout)                 \
	X(get_daemon_info)             \
	X(get_connection_info)         \
	X(suspend_connection)          \
	X(resume_connection)           \
	X(lookup_connection_value)     \
	X(lookup_connection_value_n)   \
	X(create_response_from_buffer) \
	X(add_response_header)         \
	X(queue_response)              \
	X(destroy_response)

/* libmicrohttpd, once it has been opened. The members have its own types, so that calls are checked
 * by the compiler. */
#define X(name) __typeof__(MHD_##name) *name;
struct mhd_functions {
	MHD_FUNCTIONS(X)
};
#undef X
extern struct mhd_functions mhd;

/* A client's connection. */
struct client {
	struct client *next, **prev;
	int fd;
	int64_t deadline; /* KV_NEVER while its query is suspended */
};

struct request {
	struct store_server *server;
	struct MHD_Connection *conn;
	struct client *client;
	char *body;
	size_t len;
	size_t reserved;   /* of the server's body_bytes */
	bool deleted;      /* it has deleted a key */
	struct page *page; /* its answer, if that is one of store_page.c's */
	/* a blocking query */
	struct request *next, **prev; /* prev: NULL if it is not in the list */
	char *key;
	bool by_prefix, has_waited;
	int64_t until;
};

struct store_server {
	struct MHD_Daemon *daemon;
	struct kv kv;
	struct client *clients;
	struct request *waiters;
	int nwaiters, nrequests;
	struct page *pages;
	size_t page_bytes; /* of all pages */
	size_t body_bytes; /* of the bodies of requests under way, but for small ones */
	char *token, *cert, *cert_key;
	struct addr addr;
	char address[ADDR_TEXT];
	int epoll_fd;
	int64_t client_time;
	bool withdrawn, stopping;
};

/* Of one key: with all about it, its value alone. Of what begins with a key: all, the keys. */
enum page_kind { PAGE_ENTRY, PAGE_RAW, PAGE_ENTRIES, PAGE_KEYS };

/* The answer to GET of @key at @index, which is @entries. It is kept until @r has been answered.
 * NULL: no memory, or *full: there are too many bytes of large answers under way. */
struct MHD_Response *store_page(struct request *r, enum page_kind kind, const char *key,
                                struct kv_entry *const *entries, size_t n, uint64_t index,
                                bool *full);
void store_page_release(struct request *r); /* idempotent */

/* Room for a body of @len bytes in all; false: too many are under way. */
bool store_reserve_body(struct request *r, size_t len);

/* Suspend @r until a change of @key (or of what begins with it), @until or the server's end; then
 * it is asked again, with has_waited. */
enum MHD_Result store_suspend(struct request *r, const char *key, bool by_prefix, int64_t until);

/* What every answer has; @index: X-Consul-Index, 0: none. */
void store_add_headers(struct MHD_Response *res, const char *type, uint64_t index);
/* The beginning of a request, with its headers alone: answer it, which refuses its body, or let
 * that come. */
enum MHD_Result store_api_begin(struct request *r);
/* Answer the whole of a request, or suspend it. */
enum MHD_Result store_api_answer(struct request *r, const char *method, const char *url);

#endif
