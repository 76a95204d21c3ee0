/*
 * The client of an HTTP key-value store that speaks the Consul KV subset (store_server.h): the
 * embedded server (`collctl serve`) and Consul itself, over http.h.
 *
 * The URL: [consul+]http[s]://HOST[:PORT][/PREFIX]; PREFIX is put in front of every key. The token
 * is sent as X-Consul-Token.
 */
#ifndef COLLCTL_STORE_STORE_CONSUL_H
#define COLLCTL_STORE_STORE_CONSUL_H

#include "lib/store/store.h"

extern const struct store_ops store_consul;

#endif
