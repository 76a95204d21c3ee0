#include "lib/net/pacer.h"

#include "lib/net/conn.h"

/* ---- the bucket ---- */

void bucket_init(struct bucket *b, uint64_t rate, int64_t now)
{
	*b = (struct bucket){.rate = (double)rate, .burst = (double)rate / 20, .at = now};
	if (b->burst < PACER_PIECE)
		b->burst = PACER_PIECE;
	b->tokens = b->burst;
}

uint64_t bucket_has(struct bucket *b, int64_t now)
{
	b->tokens += b->rate * (double)(now - b->at) / NS_PER_SEC;
	if (b->tokens > b->burst)
		b->tokens = b->burst;
	b->at = now;
	return (uint64_t)b->tokens;
}

void bucket_take(struct bucket *b, uint64_t n)
{
	b->tokens -= (double)n;
}

int64_t bucket_ready(const struct bucket *b)
{
	double missing = b->tokens < 1 ? 1 - b->tokens : 0;
	return b->at + (int64_t)(missing / b->rate * NS_PER_SEC) + (missing > 0);
}

/* ---- the queue ---- */

static void arm(struct pacer *p)
{
	int64_t at = p->bucket.at + PACER_PERIOD, ready = bucket_ready(&p->bucket);
	loop_timer_set(p->loop, &p->timer, at > ready ? at : ready);
}

static void enqueue(struct pacer *p, struct conn *c)
{
	c->pace.waits = true;
	c->pace.next = NULL;
	*p->end = c;
	p->end = &c->pace.next;
	if (p->waiting++ == 0)
		arm(p);
}

static struct conn *dequeue(struct pacer *p)
{
	struct conn *c = p->first;
	p->first = c->pace.next;
	if (!p->first)
		p->end = &p->first;
	p->waiting--;
	c->pace.waits = false;
	return c;
}

/* Divide the tokens among as many waiting connections as get a piece each. */
static void let_go(void *ctx)
{
	struct pacer *p = ctx;
	uint64_t tokens = bucket_has(&p->bucket, clock_ns());
	size_t n = tokens / PACER_PIECE ? tokens / PACER_PIECE : 1;
	if (n > p->waiting)
		n = p->waiting;
	for (size_t i = 0; i < n && tokens; i++) {
		struct conn *c = dequeue(p);
		c->pace.grant = tokens / n;
		c->writable = true;
		if (c->on_ready)
			c->on_ready(c->ctx);
	}
	if (p->waiting)
		arm(p);
}

void pacer_init(struct pacer *p, struct loop *loop, uint64_t rate)
{
	*p = (struct pacer){.loop = loop, .timer = {.fn = let_go, .ctx = p}};
	p->end = &p->first;
	bucket_init(&p->bucket, rate, clock_ns());
}

void pacer_release(struct pacer *p)
{
	loop_timer_stop(&p->timer);
}

void pacer_add(struct pacer *p, struct conn *c)
{
	c->pace.by = p;
}

/* ---- the connections ---- */

size_t pacer_allows(struct conn *c, size_t want)
{
	struct pacer *p = c->pace.by;
	uint64_t grant = c->pace.grant;
	c->pace.grant = 0;
	if (c->pace.waits)
		return 0;
	uint64_t tokens = grant || !p->waiting ? bucket_has(&p->bucket, clock_ns()) : 0;
	if (grant && tokens > grant)
		tokens = grant;
	if (!tokens)
		enqueue(p, c);
	return want < tokens ? want : (size_t)tokens;
}

void pacer_sent(struct conn *c, size_t n, bool more)
{
	bucket_take(&c->pace.by->bucket, n);
	if (more)
		enqueue(c->pace.by, c);
}

void pacer_forget(struct conn *c)
{
	struct pacer *p = c->pace.by;
	struct conn **at = p ? &p->first : NULL;
	if (!p || !c->pace.waits)
		return;
	while (*at != c)
		at = &(*at)->pace.next;
	*at = c->pace.next;
	if (!*at)
		p->end = at;
	p->waiting--;
}
