/*
 * What the files of the simulated network share: connections (talks.c), between sockets (net.c),
 * over links (links.c).
 */
#ifndef COLLCTL_TESTS_SIM_NET_H
#define COLLCTL_TESTS_SIM_NET_H

#include "tests/sim/sim.h"

#include <sys/epoll.h>

#define SOCKS_MOST 8192
#define OPENING    256 /* first bytes of a connection that a stranger may repeat */

enum kind { SOCK_LISTENS, SOCK_TALKS, SOCK_EPOLL, SOCK_EVENT, SOCK_SIGNAL };

enum what { SYN, SYN_ACK, DATA, FIN, RST };

struct segment {
	enum what what;
	size_t len;
	uint64_t ack; /* what its sender had received */
	struct segment *next;
	uint8_t data[];
};

/* One direction of a connection, seen from its sender. */
struct way {
	struct segment *first, **last; /* on the wire */
	size_t flying;                 /* bytes on the wire */
	uint64_t sent, acked;          /* bytes since the beginning */
	int64_t unacked_since;
	int64_t arrives; /* the last segment */
};

struct end {
	struct sock *sock; /* NULL: the process has closed it */
	struct talk *talk;
	int host, port;
	struct way out;
	uint8_t *in; /* what has arrived and was not read */
	size_t in_len, in_cap, in_at;
	uint64_t received;
	bool connected, in_ended, out_ended, wants_room;
	bool dead; /* reset, or refused */
	int error; /* told once */
};

struct talk {
	struct end ends[2];         /* the dialler's first */
	const struct proc *dialler; /* NULL: a stranger */
	int number;
	struct talk *next;
	uint8_t opening[OPENING];
	size_t opening_len;
	bool strange, repeated, answered;
};

struct sock {
	enum kind kind;
	struct proc *proc;
	int fd, port;
	uint32_t ip; /* 0: any */
	struct end *end;
	struct talk *backlog[64];
	int nbacklog;
	uint64_t counter; /* of an eventfd */
	struct item *items;
	/* epoll */
	struct item *watched;
	struct task *waiter;
};

struct item {
	struct sock *epoll, *sock;
	struct epoll_event event;
	bool edge;
	struct item *next_watched, *next_of_sock;
};

/* ---- links.c ---- */

void links_begin(void);
void link_send_at(int64_t when, int from, int to, void (*fn)(void *a, uint64_t b), void *a,
                  uint64_t b);

/* ---- talks.c ---- */

void talks_begin(void);
/* Its opening, or the identity in its ClientHello, says that it is a lane, which has not ended. */
bool is_lane(const struct talk *);
bool was_dialled_before(const struct talk *);
struct talk *talk_new(int from, int from_port, int to, int to_port);
int free_port(void);
void send_segment(struct end *, enum what, const void *data, size_t len);
/* The process closes its socket. */
void close_end(struct end *);
/* The acceptor has read of the connection: a stranger has seen what it read. */
void overheard(struct talk *);
/* Bytes that were sent and not acknowledged, and that the end may send now. */
size_t unacked(const struct end *);
size_t room_of(const struct end *);

/* ---- net.c ---- */

extern struct sock *socks[SOCKS_MOST];
extern int nsocks;

struct sock *listener_at(int host, int port);
/* Something has happened to it: who waits for it wakes. NULL: nobody has it. */
void sock_event(struct sock *);

#endif
