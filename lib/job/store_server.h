/*
 * The embedded store: an HTTP server on libmicrohttpd (opened at run time) that speaks the Consul
 * KV subset of FORMATS.md: PUT with cas and acquire, GET with raw, recurse and blocking index,
 * DELETE with recurse and cas, sessions with TTL. Caps on values, keys and waiters. It owns no
 * thread: the caller's loop (or epoll) watches its descriptor.
 */
#ifndef COLLCTL_JOB_STORE_SERVER_H
#define COLLCTL_JOB_STORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

struct store_server_conf {
	const char *listen; /* "ADDR:PORT", "[v6]:PORT"; NULL: 127.0.0.1:0 */
	const char *token;  /* required in X-Consul-Token or Authorization: Bearer; NULL: none */
	const char *tls_cert, *tls_key; /* PEM files for HTTPS, or NULL */
	int64_t ttl_ns;                 /* keys vanish this long after their last write; 0: never */
};

struct store_server;

struct store_server *store_server_start(const struct store_server_conf *, struct err *);
int store_server_port(const struct store_server *);
int store_server_fd(const struct store_server *); /* epoll descriptor: readable = run */
/* Serve what is ready; returns the milliseconds until it must be called again, -1: no deadline. */
int store_server_run(struct store_server *);
/* Has a key been created and then deleted? (serve --once) */
bool store_server_withdrawn(const struct store_server *);
void store_server_stop(struct store_server *);

#endif
