/*
 * A line with delay, for tests and benchmarks where the kernel has no netem.
 *
 *   delay_line [--delay MS] [--rate MBIT] [--queue KIB] [--loss SHARE] [--seed N]
 *              NAMESPACE DEVICE NAMESPACE DEVICE
 *
 * makes a tun device in each of two network namespaces (of `ip netns`), prints "ready", and carries
 * packets between them until it gets a signal or one of the devices is gone. In each direction a
 * packet waits until those before it are sent at --rate (default: no limit); one that would wait
 * behind more than --queue (default: 1024 KiB) is dropped. Then it travels for --delay (default:
 * 0). --loss drops packets at random before that, the same of each run for the same --seed
 * (default: 1) and the same packets. Addresses and routes are the caller's.
 *
 * One line between each host and a router makes a network of hosts that are far from each other
 * (wan.py, and wan_open in tests/fault/nets.bash).
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/clock.h"

#define PACKET_MAX 65536
#define BATCH      64 /* packets read from one end before the other has its turn */

struct line {
	int64_t delay; /* ns */
	double byte;   /* ns that a byte takes; 0: no limit */
	double queue;  /* bytes */
	double loss;   /* probability */
	uint64_t seed;
};

struct packet {
	struct packet *next;
	int64_t due; /* clock_ns(), when it arrives */
	size_t len;
	uint8_t bytes[];
};

/* One direction. */
struct way {
	int from, to;
	struct packet *first, **last;
	double idle; /* clock_ns(), when all its packets are sent */
	uint64_t random;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "delay_line: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A new tun device @name in the namespace @space. */
static int open_end(const char *space, const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	char path[256];

	snprintf(path, sizeof path, "/run/netns/%s", space);
	const int ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
		die(path);
	close(ns);
	const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		die("/dev/net/tun");
	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		die(name);
	return fd;
}

/* A number from 0 to below 1: splitmix64. */
static double draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* A packet has come at @now: lose, drop or hold it. */
static void take(struct way *w, const struct line *l, const uint8_t *bytes, size_t len, int64_t now)
{
	const double begins = w->idle > (double)now ? w->idle : (double)now;

	if (draw(&w->random) < l->loss)
		return;
	if (begins - (double)now > l->queue * l->byte)
		return;
	struct packet *p = malloc(sizeof *p + len);
	if (!p)
		die("a packet");
	w->idle = begins + (double)len * l->byte;
	*p = (struct packet){.due = (int64_t)w->idle + l->delay, .len = len};
	memcpy(p->bytes, bytes, len);
	*w->last = p;
	w->last = &p->next;
}

static void take_all(struct way *w, const struct line *l, int64_t now)
{
	static uint8_t bytes[PACKET_MAX];

	for (int i = 0; i < BATCH; i++) {
		const ssize_t len = read(w->from, bytes, sizeof bytes);
		if (len < 0 && errno == EAGAIN)
			return;
		if (len < 0)
			exit(0); /* the device is gone */
		take(w, l, bytes, (size_t)len, now);
	}
}

/* Deliver what is due. A device that is down takes nothing, as a cable that nobody has plugged in.
 */
static void deliver(struct way *w, int64_t now)
{
	while (w->first && w->first->due <= now) {
		struct packet *p = w->first;
		if (write(w->to, p->bytes, p->len) < 0 && errno == EBADFD)
			exit(0);
		if (!(w->first = p->next))
			w->last = &w->first;
		free(p);
	}
}

static int64_t earlier(int64_t until, const struct way *w)
{
	return w->first && w->first->due < until ? w->first->due : until;
}

static _Noreturn void carry(struct way way[2], const struct line *l)
{
	struct pollfd polled[2] = {{.fd = way[0].from, .events = POLLIN},
	                           {.fd = way[1].from, .events = POLLIN}};

	for (;;) {
		const int64_t now = clock_ns();
		const int64_t until = earlier(earlier(now + NS_PER_SEC, &way[0]), &way[1]);
		const int64_t wait = until > now ? until - now : 0;
		const struct timespec t = {wait / NS_PER_SEC, wait % NS_PER_SEC};

		if (ppoll(polled, 2, &t, NULL) < 0 && errno != EINTR)
			die("ppoll");
		for (int i = 0; i < 2; i++) {
			if (polled[i].revents)
				take_all(&way[i], l, clock_ns());
			deliver(&way[i], clock_ns());
		}
	}
}

static double number(const char *text, double most)
{
	char *end;
	const double x = strtod(text, &end);

	if (end == text || *end || !(x >= 0 && x <= most)) {
		fprintf(stderr, "delay_line: '%s' is not a number from 0 to %g\n", text, most);
		exit(2);
	}
	return x;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	        {"delay", required_argument, NULL, 'd'}, {"rate", required_argument, NULL, 'r'},
	        {"queue", required_argument, NULL, 'q'}, {"loss", required_argument, NULL, 'l'},
	        {"seed", required_argument, NULL, 's'},  {0},
	};
	struct line l = {.queue = 1024 * 1024, .seed = 1};
	double rate = 0;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (c) {
		case 'd':
			l.delay = (int64_t)(number(optarg, 1e6) * NS_PER_MS);
			break;
		case 'r':
			rate = number(optarg, 1e6);
			break;
		case 'q':
			l.queue = 1024 * number(optarg, 1e9);
			break;
		case 'l':
			l.loss = number(optarg, 1);
			break;
		case 's':
			l.seed = (uint64_t)number(optarg, 1e15);
			break;
		default:
			return 2;
		}
	if (argc - optind != 4) {
		fprintf(stderr,
		        "delay_line: give two namespaces, each with the name of a device\n");
		return 2;
	}
	if (rate > 0)
		l.byte = 8e3 / rate;
	(void)prctl(PR_SET_TIMERSLACK, 1);
	const int a = open_end(argv[optind], argv[optind + 1]);
	const int b = open_end(argv[optind + 2], argv[optind + 3]);
	struct way way[2] = {{.from = a, .to = b, .random = 2 * l.seed},
	                     {.from = b, .to = a, .random = 2 * l.seed + 1}};
	for (int i = 0; i < 2; i++)
		way[i].last = &way[i].first;
	puts("ready");
	fflush(stdout);
	carry(way, &l);
}
