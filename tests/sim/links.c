/* Links between hosts: how long what is sent over them takes, and what a blocked one holds. */
#include "tests/sim/net.h"

struct held {
	void (*fn)(void *a, uint64_t b);
	void *a;
	uint64_t b;
	struct held *next;
};

struct link links[HOSTS_MOST][HOSTS_MOST];
static bool host_dead[HOSTS_MOST];

void links_begin(void)
{
	memset(links, 0, sizeof links);
	memset(host_dead, 0, sizeof host_dead);
	for (int i = 0; i < HOSTS_MOST; i++)
		for (int k = 0; k < HOSTS_MOST; k++) {
			links[i][k].held_end = &links[i][k].held;
			links[i][k].least = i == k ? 5 * US : 30 * US;
			links[i][k].most = i == k ? 20 * US : 90 * US;
		}
}

int64_t link_latency(int from, int to)
{
	const struct link *l = &links[from][to];
	int64_t t = rng_range(&net_rng, l->least, l->most);
	return rng_chance(&net_rng, l->tail) ? t + rng_scale(&net_rng, t, 200 * t) : t;
}

static void hold(struct link *l, void (*fn)(void *a, uint64_t b), void *a, uint64_t b)
{
	struct held *h = world_alloc(sizeof *h);
	*h = (struct held){fn, a, b, NULL};
	*l->held_end = h;
	l->held_end = &h->next;
}

struct packet {
	int from, to;
	void (*fn)(void *a, uint64_t b);
	void *a;
	uint64_t b;
};

static void arrive(void *arg, uint64_t b)
{
	struct packet *p = arg;
	(void)b;
	if (links[p->from][p->to].blocked)
		hold(&links[p->from][p->to], arrive, p, 0);
	else if (!host_dead[p->from] && !host_dead[p->to])
		p->fn(p->a, p->b);
}

void link_send_at(int64_t when, int from, int to, void (*fn)(void *a, uint64_t b), void *a,
                  uint64_t b)
{
	struct packet *p = world_alloc(sizeof *p);
	*p = (struct packet){from, to, fn, a, b};
	at(when, arrive, p, 0);
}

void link_send(int from, int to, void (*fn)(void *a, uint64_t b), void *a, uint64_t b)
{
	link_send_at(now + link_latency(from, to), from, to, fn, a, b);
}

void link_block(int from, int to)
{
	if (from == to)
		return;
	note("block", from, to);
	links[from][to].blocked++;
}

/* What it held is sent again after a while, as TCP does. */
void link_release(int from, int to)
{
	struct link *l = &links[from][to];
	if (from == to || --l->blocked)
		return;
	note("release", from, to);
	struct held *h = l->held;
	l->held = NULL;
	l->held_end = &l->held;
	int64_t when = now + rng_scale(&net_rng, 100 * US, 200 * MS);
	for (; h; h = h->next, when += rng_range(&net_rng, 0, 20 * US))
		at(when, h->fn, h->a, h->b);
}

void net_host_dies(int host)
{
	note("host dies", host, 0);
	host_dead[host] = true;
}
