/*
 * Memory lanes: connections between ranks of one host, through memory that both ends map
 * (conn_shared.c). They are simplex: the dialling end sends. A unix socket is used for the
 * handshake, to wake the other end, and to notice its end. Processes of other users are refused; so
 * there is no encryption.
 *
 * The order of the accesses to a lane's memory, for processors that reorder them (conn_shared.c has
 * the words). A store by one end that the other end must see before another is released by the
 * later one, and acquired by the load that reads it:
 *
 * - the elements, in the ring or the arena: the sender writes them with plain stores, in this
 *   thread, or in a file thread whose result it has acquired (fileio.h). `published` releases them.
 * - the fields of a reference: relaxed stores before `published`, which releases them, too.
 * - `published`: stored with release by the sender (publish), loaded with acquire by the receiver
 *   (take). Whoever reads the count n sees the first n references and their elements.
 * - `consumed`: stored with release by the receiver (give_back), loaded with acquire by the sender
 *   (collect). So the receiver's loads of elements and references come before the sender's stores
 *   that use their place again, in the ring, the table and the arena. The sender gives a place to
 *   another of its threads under a lock (the arena's, the file thread's).
 * - poll loads the two counters relaxed: it decides only whether to call on_ready, and take and
 *   collect acquire the same counter afterwards, never an older value of it.
 * - `sender_sleeps`, `receiver_sleeps`: relaxed; they carry no data. An end that is about to sleep
 *   stores the flag, then loads the other's counter; the other stores its counter, then loads the
 *   flag. Between the two is a sequentially consistent fence on both ends, without which both
 *   loads could read old values and nobody would wake.
 * - the end of the socket: an end loads the other's counter after it has read that the other is
 *   gone, and so sees all that it has counted. The kernel orders them.
 * - `nonce`: a plain store before the memory is sent, a plain load after it has arrived: the socket
 *   orders them. All other words are zero then.
 *
 * The mappings are of the same pages but at different addresses, so every word must be lock-free.
 */
#ifndef COLLCTL_NET_CONN_SHARED_H
#define COLLCTL_NET_CONN_SHARED_H

#include "lib/net/arena.h"
#include "lib/net/tls/tls.h"

#define CONN_SHARED_RING_MAX (256u << 10)
#define CONN_SHARED_FIRST    'C' /* the first byte that the dialling end sends */

/* The sending end, over the unix socket @fd. The connection owns @fd; on failure the caller still
 * does. conn_handshake completes it. @identity, @key: what it proves to the other end. @arena: it
 * can lend memory of this arena, which must outlive the connection. @ring: bytes of the ring; 0:
 * the most. */
struct conn *conn_shared_dial(int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                              const struct arena *arena, size_t ring, struct err *err);
/* The receiving end; @fd as above. @find(ctx, ...) gives the key of the other end's identity.
 * @maps: the list in which it maps the sender's arena; it must outlive the connection. */
struct conn *conn_shared_accept(int fd, tls_find_key *find, void *ctx, struct arena_maps *maps,
                                struct err *err);
/* The identity that the sender has proved; "": none yet. Valid as long as the connection. */
const char *conn_shared_identity(const struct conn *);

#endif
