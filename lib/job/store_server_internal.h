/*
 * What the files of the embedded store share, and nobody else sees: store_server.c has the server's
 * life, its connections and who waits; store_api.c what is asked and answered.
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
	bool deleted; /* it has deleted a key */
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
	char *token, *cert, *cert_key;
	struct addr addr;
	char address[ADDR_TEXT];
	int epoll_fd;
	int64_t client_time;
	bool withdrawn, stopping;
};

/* Suspend @r until a change of @key (or of what begins with it), @until or the server's end; then
 * it is asked again, with has_waited. */
enum MHD_Result store_suspend(struct request *r, const char *key, bool by_prefix, int64_t until);

/* The beginning of a request, with its headers alone: answer it, which refuses its body, or let
 * that come. */
enum MHD_Result store_api_begin(struct request *r);
/* Answer the whole of a request, or suspend it. */
enum MHD_Result store_api_answer(struct request *r, const char *method, const char *url);

#endif
