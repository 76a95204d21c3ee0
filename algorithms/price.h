/*
 * Prices: what a collective costs by formula, from the closed form of its row (struct coll_cost).
 * `auto` takes the cheapest by it; simulate.h prices the very schedules with the same model.
 *
 * The model of a rank: one port out and one port in, which take one message after another, and one
 * core, which moves, encrypts and adds. The three work at the same time, on different parts of what
 * passes through (the frontier rule of sched.h): a rank is as slow as the slowest of them, not as
 * their sum. What happens on the core adds up: a collective runs on one thread. The price is the
 * longer of two times.
 *
 * - The work of the busiest rank, and a latency for what goes or comes last:
 *
 *       max(messages*message + sent*egress, incoming*message + received*ingress,
 *           messages*turn + (sent + received)*(copy + tls) + reduced*reduce) + latency
 *
 *   Bytes are those of the vector, S, times the figures of the row. There are as many incoming
 *   messages as there would be if they were as long as those sent. In rounds in which this rank
 *   sends nothing it waits for a first part to come through others: each adds message + first.
 * - The way of the first part through all rounds, and of the last message's rest behind it:
 *
 *       rounds * (latency + message + turn + first) + rest
 *
 *   where first is what a rank passes on at once, a grain or a whole message that is shorter, at
 * the slowest of the rates that it passes.
 *
 * What overlaps: transfer, encryption and addition; the two directions; a latency and the bytes of
 * other messages; what the next rank has of a message and the rest that is still on its way. What
 * does not: the bytes that go through one port or core. What the formula leaves out: waiting for a
 * rank that is busy with another, where phases or ranks have unlike shares. So it is rather low for
 * those, and high where the figures of a row are bounds: for few elements, and between powers of
 * two. tests/unit/test_simulate.c holds it to the simulator.
 *
 * A message holds its sender's port out and, `latency` later, its receiver's port in for `message`
 * and its bytes. So latency = 0 and message = L is the textbook's L + m/B, under which one who
 * sends to n - 1 others takes (n - 1)(L + m/B); a latency overlaps, a message's own cost does not.
 *
 * With store_and_forward a rank passes nothing on before it has all of it: the grain is the
 * message.
 */
#ifndef COLLCTL_ALGORITHMS_PRICE_H
#define COLLCTL_ALGORITHMS_PRICE_H

#include "algorithms/sched.h"

/* Seconds, and seconds a byte; none is negative. */
struct price_model {
	double latency; /* s: from when a byte has left until its receiver can use it */
	double message; /* s: of each message at either port: system calls, a record's framing */
	double egress;  /* s/B of the port out ... */
	double ingress; /* ... and of the port in */
	double copy;    /* s/B of the core for what is sent, received or copied */
	double tls;     /* s/B of the core besides, at either end; 0: --insecure */
	double reduce;  /* s/B of the core for what is added */
	double turn;    /* s of the core for each message that is sent: where ranks share it */
	double file;  /* s/B of reading and of writing files, each beside all else; 0: not priced */
	double grain; /* B that a rank passes on at once: a TLS record */
	bool store_and_forward;
};

/*
 * The built-in rates: a local network of 10 Gbit/s with TLS, one core a rank.
 * - latency: 50 us, a round over TCP between hosts with both wake-ups (25 us on one machine).
 * - message: 5 us, two system calls and a record.
 * - egress, ingress: 0.85 ns/B, 10 Gbit/s less the headers of Ethernet, IP, TCP and TLS.
 * - copy, tls: 0.10 and 0.22 ns/B, from 64 MiB allreduces of 4 ranks on 2 cores, where 805 MB are
 *   sent and received: 39 ms plainly, 128 ms over TLS (AES-128-GCM of OpenSSL 3.0).
 * - reduce: 0.12 ns/B, adding f32 that lie in the cache (`make bench-reduce`).
 * - grain: 16 KiB, a TLS record.
 */
extern const struct price_model price_default;

/* The same without encryption, where @insecure. */
struct price_model price_placed(const struct price_model *, bool insecure);

/*
 * The same for ranks that share a host of @cpus processors: there is no network, but a rank has a
 * share of a processor only. A latency is a wake-up, of PRICE_WAKE seconds times the ranks of a
 * processor; where they are several, a message costs a turn at it, PRICE_TURN seconds times their
 * number. From allreduces over loopback on two processors (`collctl bench allreduce -a all`): 4 KiB
 * between 2 ranks 9 us, between 4 35 us; 1 MiB between 8 by rabenseifner, 6 messages a rank, 1.8
 * ms, by direct, 14 messages, 4.7 ms.
 */
struct price_model price_on_one_host(const struct price_model *, int size, int cpus);
#define PRICE_WAKE 5e-6
#define PRICE_TURN 20e-6

/* The price in seconds of @cost with vectors of @bytes. */
double price_formula(const struct price_model *, const struct coll_cost *cost, double bytes);

#endif
