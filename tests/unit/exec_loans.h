/*
 * In-memory connections that lend (conn.h): the writer's bytes stay where they are until the reader
 * has consumed them, so a buffer that is overwritten too early spoils the result. No locks: one
 * thread.
 */
#ifndef COLLCTL_TESTS_EXEC_LOANS_H
#define COLLCTL_TESTS_EXEC_LOANS_H

#include <stdlib.h>
#include <string.h>

#include "lib/net/conn.h"
#include "tests/unit/unit.h"

#define LOANS       5  /* at once */
#define LOANS_LEAST 24 /* bytes; some steps of a test are shorter, others longer */

struct loan {
	const uint8_t *p; /* what is left of it */
	size_t n;
	uint8_t *copy; /* of what was written, not lent; NULL: lent */
	size_t size;
};

struct loans {
	struct loan loans[LOANS];
	unsigned first, count;
	size_t room;       /* bytes of copies */
	size_t grain;      /* elements stay whole: what is taken is a multiple of it */
	size_t quantum;    /* the most bytes at once, at least a grain; 0: any */
	uint64_t lent;     /* bytes of the stream */
	uint64_t consumed; /* by the reader */
	uint64_t told;     /* to the writer */
	uint64_t random;   /* state of the random stalls; 0: no stalls */
	bool lies;         /* it says that all is consumed */
	bool ended;
	int ends; /* connections that use it */
};

struct loan_end {
	struct conn conn;
	struct loans *l;
};

static inline struct loans *loans_of(const struct conn *c)
{
	return ((const struct loan_end *)c)->l;
}

/* xorshift64: about every third call stalls. */
static inline bool loans_stall(struct loans *l)
{
	if (!l->random)
		return false;
	l->random ^= l->random << 13;
	l->random ^= l->random >> 7;
	l->random ^= l->random << 17;
	return l->random % 3 == 0;
}

/* At most @most of @n bytes, and whole elements. */
static inline size_t whole(const struct loans *l, size_t n, size_t most)
{
	return n <= most ? n : most / l->grain * l->grain;
}

static inline size_t piece(const struct loans *l, size_t n)
{
	return l->quantum ? whole(l, n, l->quantum < l->grain ? l->grain : l->quantum) : n;
}

static inline ssize_t loans_add(struct loans *l, const void *p, size_t n, uint8_t *copy)
{
	struct loan *loan = &l->loans[(l->first + l->count++) % LOANS];
	*loan = (struct loan){.p = p, .n = n, .copy = copy, .size = n};
	l->lent += n;
	return (ssize_t)n;
}

static inline ssize_t loans_lend(struct conn *c, const void *p, size_t n, struct err *err)
{
	struct loans *l = loans_of(c);
	(void)err;
	return loans_stall(l) || l->count == LOANS ? 0 : loans_add(l, p, piece(l, n), NULL);
}

static inline ssize_t loans_write(struct conn *c, const void *buf, size_t n, struct err *err)
{
	struct loans *l = loans_of(c);
	(void)err;
	n = whole(l, piece(l, n), l->room);
	if (loans_stall(l) || l->count == LOANS || n == 0)
		return 0;
	uint8_t *copy = malloc(n);
	assert_non_null(copy);
	memcpy(copy, buf, n);
	l->room -= n;
	return loans_add(l, copy, n, copy);
}

static inline bool loans_reach(const struct conn *c, const void *p, size_t n)
{
	(void)c, (void)p, (void)n;
	return true;
}

static inline int64_t loans_consumed(struct conn *c, struct err *err)
{
	struct loans *l = loans_of(c);
	(void)err;
	if (!loans_stall(l))
		l->told = l->lies ? l->lent : l->consumed;
	return (int64_t)l->told;
}

static inline ssize_t loans_borrow(struct conn *c, const void **p, size_t n, struct err *err)
{
	struct loans *l = loans_of(c);
	(void)err;
	if (loans_stall(l))
		return 0;
	if (l->count == 0)
		return l->ended ? CONN_END : 0;
	const struct loan *loan = &l->loans[l->first];
	*p = loan->p;
	return (ssize_t)piece(l, n < loan->n ? n : loan->n);
}

static inline void loans_give_back(struct conn *c, size_t n)
{
	struct loans *l = loans_of(c);
	struct loan *loan = &l->loans[l->first];
	assert_true(l->count > 0 && n <= loan->n);
	loan->p += n;
	loan->n -= n;
	l->consumed += n;
	if (loan->n)
		return;
	l->room += loan->copy ? loan->size : 0;
	free(loan->copy);
	l->first = (l->first + 1) % LOANS;
	l->count--;
}

/* With a quantum each byte comes alone. */
static inline ssize_t loans_read(struct conn *c, void *buf, size_t n, struct err *err)
{
	struct loans *l = loans_of(c);
	const void *p;
	if (c->writable) /* the writer's end: nothing comes back */
		return 0;
	ssize_t got = loans_borrow(c, &p, l->quantum && n ? 1 : n, err);
	if (got <= 0)
		return got;
	memcpy(buf, p, (size_t)got);
	loans_give_back(c, (size_t)got);
	return got;
}

static inline int loans_done(struct conn *c, struct err *err)
{
	(void)c, (void)err;
	return 1;
}

static inline int loans_end(struct conn *c, struct err *err)
{
	(void)err;
	loans_of(c)->ended = true;
	return 1;
}

static inline void loans_free(struct conn *c)
{
	struct loans *l = loans_of(c);
	free(c);
	if (--l->ends)
		return;
	for (unsigned i = 0; i < l->count; i++)
		free(l->loans[(l->first + i) % LOANS].copy);
	free(l);
}

static const struct conn_lending loans_lending = {
        .least = LOANS_LEAST,
        .reaches = loans_reach,
        .lend = loans_lend,
        .consumed = loans_consumed,
        .borrow = loans_borrow,
        .give_back = loans_give_back,
};

static const struct conn_ops loans_ops = {
        .name = "loans",
        .sums = true,
        .handshake = loans_done,
        .read = loans_read,
        .write = loans_write,
        .flush = loans_done,
        .end = loans_end,
        .free = loans_free,
        .lending = &loans_lending,
};

static inline struct conn *loans_open(struct loans *l, bool writer)
{
	struct loan_end *e = calloc(1, sizeof *e);
	assert_non_null(e);
	e->conn =
	        (struct conn){.ops = &loans_ops, .fd = -1, .readable = !writer, .writable = writer};
	e->l = l;
	l->ends++;
	return &e->conn;
}

/* A writer and a reader. @room: bytes that are written, not lent, and not consumed: at least an
 * element. @seed: as of conn_memory_pair (conn_memory.h). */
static inline void loans_pair(struct conn **writer, struct conn **reader, size_t room, size_t grain,
                              size_t quantum, uint64_t seed, bool lies)
{
	struct loans *l = calloc(1, sizeof *l);
	assert_non_null(l);
	*l = (struct loans){
	        .room = room, .grain = grain, .quantum = quantum, .random = seed, .lies = lies};
	*writer = loans_open(l, true);
	*reader = loans_open(l, false);
}

#endif
