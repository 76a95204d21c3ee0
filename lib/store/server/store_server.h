/*
 * The embedded store: an HTTP server on libmicrohttpd (opened at run time) that speaks what
 * store_http.c asks for, a part of Consul's KV API: GET of a key, at once or when it has changed
 * (?index=N&wait=TIME), PUT and DELETE of a key, if nobody has changed it (?cas=N) or in any case.
 * Any other request is refused, one with another argument too. Caps on values, keys, waiters,
 * connections, and the bytes of answers and bodies in progress; a client that takes more than ten
 * seconds to send a request or to receive an answer is disconnected. It has no thread: the caller's
 * loop (or epoll) watches its descriptor. kv.h holds the content.
 */
#ifndef COLLCTL_STORE_SERVER_STORE_SERVER_H
#define COLLCTL_STORE_SERVER_STORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define STORE_SERVER_PORT 8500 /* Consul's */

struct store_server_conf {
	const char *listen; /* "ADDR[:PORT]", "[v6]:PORT"; NULL: 127.0.0.1:0 */
	const char *token;  /* required in X-Consul-Token or Authorization: Bearer; NULL: none */
	const char *tls_cert, *tls_key; /* PEM files for HTTPS, or NULL */
	int64_t ttl_ns;    /* keys are deleted this long after their last write; 0: never */
	int64_t client_ns; /* to send a request, or receive an answer; 0: ten seconds */
};

struct store_server;

/* The version of libmicrohttpd; NULL: it can't be used. */
const char *store_server_library(void);
/* ERR_USAGE for an address that can't be listened on, ERR_RESOURCE for a taken port or without
 * libmicrohttpd, ERR_AUTH for certificates that can't be used. Nothing of *conf is kept. */
struct store_server *store_server_start(const struct store_server_conf *, struct err *);
int store_server_port(const struct store_server *);
/* "127.0.0.1:8500"; whether only this machine reaches it. */
const char *store_server_address(const struct store_server *);
bool store_server_is_loopback(const struct store_server *);
int store_server_fd(const struct store_server *); /* epoll descriptor: readable = run */
/* Serve what is ready; returns the milliseconds until it must be called again, -1: no deadline. */
int store_server_run(struct store_server *);
/* Has a request deleted a key, and been answered? (serve --once) */
bool store_server_withdrawn(const struct store_server *);
/* Answer waiting clients, for a bounded time; close every connection; free. */
void store_server_stop(struct store_server *);

#endif
