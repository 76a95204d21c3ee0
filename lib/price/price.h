/*
 * Prices: the time of a collective in seconds, by a formula from its cost (struct coll_cost).
 * `auto` chooses the algorithm with the lowest price; simulate.h simulates the schedules with the
 * same model. Pure functions; any thread.
 *
 * The model of a rank: a port out and a port in, which carry one message after another, and a core,
 * which copies, encrypts and adds. The three work at the same time on different parts of the data
 * (the frontier rule of sched.h), so the time of a rank is the maximum of their times, not the sum.
 * Times on the core add up, because a collective runs on one thread. The price is the maximum of
 * two times.
 *
 * - The work of the busiest rank, and one latency for the last message:
 *
 *       max(messages*message + leaves*egress, incoming*message + enters*ingress,
 *           messages*turn + (sent + received)*copy + crosses*tls + reduced*reduce) + latency
 *
 *   Bytes are S, the bytes of the vector, times the figures of the cost. A host has one port out
 * and one port in, which its ranks share: `leaves` and `enters` are the bytes of the busiest host.
 * If the hosts' ports have different rates, the times of these bytes are those of the host that
 * needs most time: `out` and `in`, which are counted in the schedules, for this root.
 * Inside a host messages pass no port and are not encrypted. `incoming` is the number of messages
 * received, estimated by the length of those sent. A round in which this rank sends nothing adds
 * message + first, because the rank waits for a first part from others. The `idle` rounds, in which
 * a pipeline fills before this rank is busy and empties afterwards, are added in full, as below.
 *
 *   If messages of several ranks meet at ports (`meets`), the time of bytes at ports is multiplied
 * by 1.1. Over 4 links of 1 Gbit/s an allreduce of 32 MiB takes 1.08 of its bytes' time by
 * ring_chunked, 1.14 to 1.24 by circulant and halving_doubling; over 4 of 100 Mbit/s that 4 ranks
 * share 1.10 by hosts, 1.24 by halving_doubling.
 *
 *   With `lends`, the term of copies is (received - reduced + copies + moved)*copy. What is added
 * in a wider type counts twice. Exchanges in pairs take 1.15 times as long. Every round has one
 * latency, because ranks pass on whole messages.
 *
 *   The rates of the core assume that all ranks of a host work all the time (`crowd`). If `busy` is
 * less than 1, as in a reduce to one rank, the core is faster, at most as fast as for one rank
 * alone.
 * - The path of the first part through all rounds, followed by the rest of the last message:
 *
 *       rounds * (latency + message + turn + first) + rest
 *
 *   For messages between hosts, first is the time of a grain, or of a shorter message, at the
 * slowest rate on its path. If ranks of a host send at the same time they share its port: first is
 * then multiplied by their number, which is estimated as the bytes that leave the host divided by
 * those that its busiest rank sends. A round inside a host has the latency `inside` and only the
 * core's rate, for one rank alone, because the others wait.
 *
 * These overlap: transfer, encryption and addition; the two directions; a latency and the bytes of
 * other messages; forwarding the first part of a message and receiving the rest. Bytes that pass
 * the same port or core do not overlap. The formula ignores the time in which a rank waits for
 * another that is busy with a third. So it is too low if phases or ranks have unequal shares. It is
 * too high if figures of the cost are upper bounds: for few elements, and between powers of two.
 * tests/unit/test_simulate.c compares it with the simulator.
 *
 * A message occupies its sender's port out and, `latency` later, its receiver's port in for
 * `message` plus the time of its bytes. So latency = 0 and message = L is the textbook's L + m/B,
 * where sending to n - 1 others takes (n - 1)(L + m/B). Latencies overlap; the costs of messages do
 * not.
 *
 * With store_and_forward a rank forwards a message only when it has received all of it.
 */
#ifndef COLLCTL_PRICE_PRICE_H
#define COLLCTL_PRICE_PRICE_H

#include "lib/sched/sched.h"

/* s/B of a host's port out and port in. */
struct price_port {
	double egress, ingress;
};

/* Seconds, and seconds per byte, all non-negative. */
struct price_model {
	double latency; /* s: from sending a byte until its receiver can use it ... */
	double inside;  /* ... and if that is on the same host; ignored if none shares one */
	double message; /* s per message at either port: system calls, framing of a record */
	double egress;  /* s/B of the port out ... */
	double ingress; /* ... and of the port in */
	/* The ports of the hosts, by the numbers of coll_args.host, or by rank if no ranks share a
	 * host. egress and ingress are then those of the slowest. The caller's. NULL: all hosts
	 * have the two rates above. */
	const struct price_port *ports;
	double copy;   /* s/B of the core to send, receive or copy */
	double tls;    /* additional s/B of the core at either end; 0: --insecure */
	double reduce; /* s/B of the core to add */
	double turn;   /* s of the core per message sent, if ranks share a processor */
	double crowd;  /* the ranks per processor that the rates of the core assume; 0: 1 */
	double file;   /* s/B to read or write files, in parallel with all else; 0: ignored */
	double grain;  /* B, the part of a message that a rank forwards at once: a TLS record */
	/* Devices: s per task; s/B of a copy to or from a device; s/B that arithmetic on a device
	 * reads or writes. Only the simulator uses them, because they are the same for all
	 * algorithms. */
	double device_start, device_copy, device_fold;
	bool store_and_forward;
	/* Ranks read each other's memory: the bytes of a message take no time of the sender, and
	 * `copy` or, if they are added, `reduce` of the receiver. */
	bool lends;
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
 * - device_start, device_copy, device_fold: 10 us, 0.04 ns/B (16 lanes of PCIe 4) and 0.001 ns/B (1
 *   TB/s), from data sheets; `collctl bench --device cuda --tuning-out` measures them.
 */
extern const struct price_model price_default;

/* @m with the rates of devices from @devices. */
struct price_model price_with_devices(const struct price_model *m,
                                      const struct price_model *devices);

/* @m, without encryption if @insecure. */
struct price_model price_placed(const struct price_model *, bool insecure);

/*
 * @m for @size ranks on one host with @cpus processors: without a network, but each rank has only a
 * share of a processor. A latency is a wake-up, PRICE_WAKE seconds times the ranks per processor.
 * If several ranks share a processor, a message costs a turn, PRICE_TURN seconds times their
 * number. From allreduces over loopback on two processors (`collctl bench allreduce -a all`): 4 KiB
 * between 2 ranks 9 us, between 4 35 us; 1 MiB between 8 by rabenseifner, 6 messages a rank, 1.8
 * ms, by direct, 14 messages, 4.7 ms.
 */
struct price_model price_on_one_host(const struct price_model *, int size, int cpus);

/*
 * The same, if the ranks send through shared memory: what is sent is mostly in the cache, and
 * system calls are needed only to wake a rank. From `collctl bench allreduce -a all --lanes memory`
 * on two processors: 4 KiB between 8 ranks by recursive_doubling (3 rounds, 3 messages a rank) 20
 * us, by halving_doubling (6 and 6) 30 us, by direct (2 and 14) 31 us; 1 MiB between 4 ranks 76 to
 * 97 us.
 */
struct price_model price_in_memory(const struct price_model *, int size, int cpus);

/*
 * @m for ranks on several hosts, at most @most ranks on one, with @cpus processors each (0: one for
 * each rank). The rates of ports are those of the network.
 */
struct price_model price_on_hosts(const struct price_model *, int most, int cpus);
#define PRICE_WAKE 5e-6
#define PRICE_TURN 20e-6
/* In shared memory: a wake-up, a message, and s/B to copy and to add. */
#define PRICE_MEMORY_WAKE   0.75e-6
#define PRICE_MEMORY_TURN   0.3e-6
#define PRICE_MEMORY_COPY   0.04e-9
#define PRICE_MEMORY_REDUCE 0.055e-9
#define PRICE_MEMORY_GRAIN  (256 << 10) /* a turn of a lane (exec) */

/* The price in seconds of @cost with vectors of @bytes. */
double price_formula(const struct price_model *, const struct coll_cost *cost, double bytes);

#endif
