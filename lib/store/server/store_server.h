/*
 * The embedded store: an HTTP server over libmicrohttpd (opened at run time). It implements the
 * part of Consul's KV API that store_consul.c uses: GET of a key, at once or when it has changed
 * (?index=N&wait=TIME); PUT and DELETE of a key, unconditionally or if its index is N (?cas=N). It
 * refuses all other requests and arguments. kv.h has the content.
 *
 * The numbers of keys, waiting clients and connections are limited, and so are the sizes of values
 * and of all bodies and answers in progress. A client that needs more than ten seconds to send a
 * request or to receive an answer is disconnected.
 *
 * It has no thread: the caller's loop or epoll watches its descriptor, and one thread calls all
 * functions.
 *
 * Source: https://developer.hashicorp.com/consul/api-docs/kv, and blocking queries there.
 */
#ifndef COLLCTL_STORE_SERVER_STORE_SERVER_H
#define COLLCTL_STORE_SERVER_STORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define STORE_SERVER_PORT 8500 /* Consul's */

struct store_server_conf {
	const char *listen; /* "ADDR[:PORT]", "[v6]:PORT"; NULL: 127.0.0.1:0 */
	const char *token;  /* that requests must have in X-Consul-Token or Authorization: Bearer;
	                       NULL: none */
	const char *tls_cert, *tls_key; /* PEM files for HTTPS, or NULL */
	int64_t ttl_ns;    /* a key is deleted this time after its last write; 0: never */
	int64_t client_ns; /* the time that a client has to send a request, or to receive an answer;
	                      0: ten seconds */
};

struct store_server;

/* The version of libmicrohttpd; NULL: it cannot be used. */
const char *store_server_library(void);
/* Start the server; *conf is copied. NULL: ERR_USAGE: it cannot listen on this address;
 * ERR_RESOURCE: the port is taken, or libmicrohttpd is missing; ERR_AUTH: the certificate or key is
 * not usable. */
struct store_server *store_server_start(const struct store_server_conf *, struct err *);
int store_server_port(const struct store_server *);
/* Its address, "127.0.0.1:8500", owned by the server; can only this machine reach it? */
const char *store_server_address(const struct store_server *);
bool store_server_is_loopback(const struct store_server *);
/* An epoll descriptor; when it is readable, call store_server_run. */
int store_server_fd(const struct store_server *);
/* Handle the events that are ready. Returns the milliseconds after which it must be called again;
 * -1: only when the descriptor is readable. */
int store_server_run(struct store_server *);
/* Has a request deleted a key, and was it answered? (serve --once) */
bool store_server_withdrawn(const struct store_server *);
/* Put a value as a client would. ERR_RESOURCE. */
int store_server_put(struct store_server *, const char *key, const void *data, size_t len,
                     struct err *err);
/* Answer waiting clients, for a bounded time; close all connections; free the server. */
void store_server_stop(struct store_server *);

#endif
