/*
 * Shared by the files of the embedded store: store_server.c (the server, its connections and
 * waiters), store_api.c (requests and answers).
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
	X(get_connection_values_n)     \
	X(create_response_from_buffer) \
	X(add_response_header)         \
	X(queue_response)              \
	X(destroy_response)

/* The functions of libmicrohttpd, once it is opened, with their types from its header. */
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
	size_t reserved; /* its part of the server's large_bytes */
	bool deleted;    /* the request has deleted a key */
	/* of a blocking query */
	struct request *next, **prev; /* in the server's waiters; prev NULL: it does not wait */
	char *key;
	bool has_waited;
	int64_t until;
};

struct store_server {
	struct MHD_Daemon *daemon;
	struct kv kv;
	struct client *clients;
	struct request *waiters;
	int nwaiters, nrequests;
	size_t large_bytes; /* of the bodies and answers of current requests, without small ones */
	char *token, *cert, *cert_key;
	struct addr addr;
	char address[ADDR_TEXT];
	int epoll_fd;
	int64_t client_time;
	bool withdrawn, stopping;
};

/* Count @len bytes of a body or an answer of @r. False: the bodies and answers in progress would
 * have too many bytes; small ones are never refused. */
bool store_reserve(struct request *r, size_t len);

/* Suspend @r until @key changes, until @until, or until the server stops. Then @r is handled again,
 * with has_waited set. */
enum MHD_Result store_suspend(struct request *r, const char *key, int64_t until);

/* The headers of @r have arrived: accept its body, or answer at once, which refuses it. */
enum MHD_Result store_api_begin(struct request *r);
/* @r is complete: answer or suspend it. */
enum MHD_Result store_api_answer(struct request *r, const char *method, const char *url);

#endif
