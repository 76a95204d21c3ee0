/*
 * Shared by the files of the embedded store: store_server.c (the server, its connections and
 * waiters), store_api.c (requests and answers), store_page.c (large answers).
 */
#ifndef COLLCTL_STORE_SERVER_STORE_SERVER_INTERNAL_H
#define COLLCTL_STORE_SERVER_STORE_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <microhttpd.h>

#include "lib/net/addr.h"
#include "lib/store/server/kv.h"
#include "lib/store/server/store_server.h"

#define WAITERS_MAX 4096

#define MHD_FUNCTIONS(X)               \
	X(get_version)                 \
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

/* libmicrohttpd, once it is loaded. The members have its own types, so that the compiler checks the
 * calls. */
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
	bool deleted;      /* the request has deleted a key */
	struct page *page; /* its answer, if store_page.c made it */
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
	size_t body_bytes; /* of the bodies of current requests, except small ones */
	char *token, *cert, *cert_key;
	struct addr addr;
	char address[ADDR_TEXT];
	int epoll_fd;
	int64_t client_time;
	bool withdrawn, stopping;
};

/* One key: its entry, or its value alone. All keys with a prefix: the entries, or the keys. */
enum page_kind { PAGE_ENTRY, PAGE_RAW, PAGE_ENTRIES, PAGE_KEYS };

/* The answer to GET of @key at @index, made of @entries. It is kept until @r has been answered.
 * NULL: no memory, or *full: the large answers in progress have too many bytes. */
struct MHD_Response *store_page(struct request *r, enum page_kind kind, const char *key,
                                struct kv_entry *const *entries, size_t n, uint64_t index,
                                bool *full);
void store_page_release(struct request *r); /* idempotent */

/* Reserve room for a body of @len bytes in all; false: the current bodies have too many bytes. */
bool store_reserve_body(struct request *r, size_t len);

/* Suspend @r until a change of @key (or of a key with that prefix), @until or the server's end.
 * Then it is handled again, with has_waited. */
enum MHD_Result store_suspend(struct request *r, const char *key, bool by_prefix, int64_t until);

/* Add the headers of every answer; @index: X-Consul-Index, 0: none. */
void store_add_headers(struct MHD_Response *res, const char *type, uint64_t index);
/* The headers of a request have arrived: answer it, which refuses its body, or accept the body. */
enum MHD_Result store_api_begin(struct request *r);
/* Answer a complete request, or suspend it. */
enum MHD_Result store_api_answer(struct request *r, const char *method, const char *url);

#endif
