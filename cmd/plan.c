/*
 * plan: what an algorithm would do, offline, and whether it is right. It builds the very schedules
 * that the collective would run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/verify.h"
#include "cmd/commands.h"
#include "lib/exec/select.h"

#define DEFAULT_BYTES (UINT64_C(1) << 20)
#define ITEM_SIZE     4 /* bytes of an element, f32; a barrier's notice is one byte */

/* A plan of more schedules than this, in bytes, would rather exhaust the machine than be read. */
#define PLAN_MAX (UINT64_C(8) << 30)

struct planned {
	struct coll_cost cost;
	const struct coll_algorithm *alg;
	struct coll_args args;
	uint64_t *off;
	struct sched **scheds; /* [size] */
	struct sched_figures figures;
	uint64_t item;
	bool verified;
};

static void planned_release(struct planned *p)
{
	for (int r = 0; p->scheds && r < p->args.size; r++)
		sched_free(p->scheds[r]);
	free(p->scheds);
	free(p->off);
}

/* ---- what is asked for ---- */

static int check_options(const struct options *o, struct err *err)
{
	if (o->size < 1)
		return err_set(err, ERR_USAGE, "--size: how many ranks? (-n P)");
	if (o->rank >= o->size)
		return err_set(err, ERR_USAGE, "--rank: %d is not below the size, %d", o->rank,
		               o->size);
	if (o->root >= o->size)
		return err_set(err, ERR_USAGE, "--root: %d is not below the size, %d", o->root,
		               o->size);
	if (o->have_count && o->have_bytes)
		return err_set(err, ERR_USAGE, "--count and --bytes: one of them says it all");
	return 0;
}

static uint64_t count_of(const struct options *o, enum coll_kind kind)
{
	const uint64_t bytes = o->have_bytes ? o->bytes : DEFAULT_BYTES;

	if (kind == COLL_BARRIER)
		return 1;
	return o->have_count ? o->count : bytes / ITEM_SIZE + (bytes % ITEM_SIZE > 0);
}

static const struct coll_algorithm *choose(const struct options *o, enum coll_kind kind,
                                           uint64_t bytes)
{
	const struct select_args s = {
	        .kind = kind,
	        .size = o->size,
	        .bytes = bytes,
	        .op = REDUCE_SUM,
	        .dtype = DTYPE_F32,
	        .divergent = kind == COLL_BARRIER, /* notices have no order */
	};

	return strcmp(o->algorithm, "auto") ? coll_find(kind, o->algorithm) : select_auto(&s);
}

static int planned_init(struct planned *p, const struct options *o, const char *collective,
                        struct err *err)
{
	enum coll_kind kind;
	uint64_t count;

	if (coll_by_name(collective, &kind))
		return err_set(err, ERR_USAGE,
		               "%s: unknown collective; 'collctl algorithms' lists them",
		               collective);
	if (check_options(o, err))
		return -1;
	count = count_of(o, kind);
	p->item = kind == COLL_BARRIER ? 1 : ITEM_SIZE;
	if (count > INT64_MAX / ITEM_SIZE)
		return err_set(err, ERR_USAGE, "--count: %" PRIu64 " elements are too many", count);
	p->alg = choose(o, kind, count * p->item);
	if (!p->alg && !strcmp(o->algorithm, "auto"))
		return err_set(err, ERR_USAGE,
		               "%s has no algorithm; 'collctl algorithms' lists those there are",
		               collective);
	if (!p->alg)
		return algorithm_named(kind, o->algorithm, &p->alg, err);
	p->off = calloc((size_t)o->size + 1, sizeof(*p->off));
	p->scheds = calloc((size_t)o->size, sizeof(struct sched *));
	p->args = (struct coll_args){
	        .size = o->size, .root = o->root, .ninputs = 1, .noutputs = 1, .off = p->off};
	if (!p->off || !p->scheds)
		return err_nomem(err, "the plan", 16 * (unsigned long long)o->size);
	coll_split(count, o->size, p->off);
	p->cost = coll_cost_of(p->alg, &p->args);
	return 0;
}

/* ---- building ---- */

static int check_size(const struct planned *p, struct err *err)
{
	const struct sched *s = p->scheds[0];
	const uint64_t bytes = (uint64_t)p->args.size * (s->nsteps * sizeof(struct sched_step) +
	                                                 s->ndeps * sizeof(struct sched_dep));

	if (bytes <= PLAN_MAX)
		return 0;
	return err_set(err, ERR_RESOURCE,
	               "the schedules of %d ranks are %" PRIu64 " GiB; plan fewer ranks",
	               p->args.size, bytes >> 30);
}

static int build_all(struct planned *p, struct err *err)
{
	struct coll_args a = p->args;
	char why[VERIFY_TEXT];
	enum sched_error e;

	for (a.rank = 0; a.rank < a.size; a.rank++) {
		p->scheds[a.rank] = sched_build(p->alg, &a, &e);
		if (e)
			return err_set(err, e == SCHED_NOMEM ? ERR_RESOURCE : ERR_OTHER,
			               "%s of rank %d: %s", p->alg->name, a.rank,
			               sched_strerror(e));
		if (a.rank == 0 && check_size(p, err))
			return -1;
	}
	if (!sched_figures(p->scheds, a.size, &p->figures, why))
		return err_set(err, ERR_OTHER, "%s: %s", p->alg->name, why);
	return 0;
}

static int verify(struct planned *p, struct err *err)
{
	char why[VERIFY_TEXT];

	if (!verify_algorithm(p->alg, &p->args, why))
		return err_set(err, ERR_OTHER, "%s of %d ranks is wrong: %s", p->alg->name,
		               p->args.size, why);
	p->verified = true;
	return 0;
}

/* ---- as text ---- */

/* "out", "in1", "scratch0" */
static const char *buf_name(const struct sched *s, uint32_t buf, char text[24])
{
	const uint32_t out = (uint32_t)s->ninputs;

	if (buf == out)
		snprintf(text, 24, "out");
	else if (buf < out)
		snprintf(text, 24, "in%" PRIu32, buf);
	else
		snprintf(text, 24, "scratch%" PRIu32, buf - out - 1);
	return text;
}

/* A place of @st, as "out[4,8)", in the buffers or, for the files' steps, in a file. */
static const char *place(const struct sched *s, const struct sched_step *st, bool dst,
                         char text[96])
{
	const struct sched_span span = dst ? st->dst : st->src;
	const bool file = st->op == (dst ? SCHED_WRITE : SCHED_READ);
	char buf[24];

	if (file)
		snprintf(buf, sizeof(buf), "%s%" PRIu32, dst ? "output" : "input", span.buf);
	else
		buf_name(s, span.buf, buf);
	snprintf(text, 96, "%s[%" PRIu64 ",%" PRIu64 ")", buf, span.off, span.off + st->len);
	return text;
}

static void print_operands(const struct sched *s, const struct sched_step *st)
{
	const bool wire_left = st->flags & SCHED_WIRE_LEFT;
	char dst[96], src[96], peer[24];

	snprintf(peer, sizeof(peer), "rank %d", st->peer);
	switch (st->op) {
	case SCHED_SEND:
		printf("%s -> %s", place(s, st, false, src), peer);
		break;
	case SCHED_RECV:
		printf("%s <- %s", place(s, st, true, dst), peer);
		break;
	case SCHED_RECV_REDUCE:
		place(s, st, false, src);
		printf("%s <- %s op %s", place(s, st, true, dst), wire_left ? peer : src,
		       wire_left ? src : peer);
		break;
	case SCHED_REDUCE:
		place(s, st, true, dst);
		place(s, st, false, src);
		printf("%s <- %s op %s", dst, wire_left ? src : dst, wire_left ? dst : src);
		break;
	case SCHED_LOCAL_REDUCE:
		printf("%s <- all inputs", place(s, st, true, dst));
		break;
	default:
		printf("%s <- %s", place(s, st, true, dst), place(s, st, false, src));
		break;
	}
	if (st->flags & SCHED_FINAL)
		printf(", final");
}

static void print_rank(const struct sched *s)
{
	printf("\nrank %d\n", s->rank);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];

		printf("%5" PRIu32 "  %-12s ", i, sched_op_name(st->op));
		print_operands(s, st);
		for (uint32_t k = 0; k < st->ndep; k++)
			printf("%s%" PRIu32, k ? "," : "  after ", s->deps[st->dep + k].step);
		putchar('\n');
	}
}

static void print_text(const struct planned *p, int rank)
{
	const struct sched_figures *f = &p->figures;
	const uint64_t count = p->off[p->args.size];

	printf("%s %s, %d ranks, %" PRIu64 " elements, %" PRIu64 " bytes\n",
	       coll_name(p->alg->kind), p->alg->name, p->args.size, count, count * p->item);
	printf("%" PRIu64 " steps; at most %" PRIu64 " messages, %" PRIu64 " bytes sent, %" PRIu64
	       " peers, %" PRIu64 " elements of scratch a rank\n",
	       (uint64_t)p->cost.rounds, f->messages, f->elements * p->item, f->peers, f->scratch);
	if (p->verified)
		printf("verified: all %d schedules\n", p->args.size);
	for (int r = 0; r < p->args.size; r++)
		if (rank < 0 || r == rank)
			print_rank(p->scheds[r]);
}

/* ---- as JSON ---- */

static json_t *json_place(const struct sched *s, const struct sched_step *st, bool dst)
{
	const struct sched_span span = dst ? st->dst : st->src;
	const bool file = st->op == (dst ? SCHED_WRITE : SCHED_READ);
	char buf[24];

	if (span.buf == SCHED_NONE)
		return json_null();
	if (file)
		snprintf(buf, sizeof(buf), "%s%" PRIu32, dst ? "output" : "input", span.buf);
	else
		buf_name(s, span.buf, buf);
	return json_pack("{s:s, s:I}", "buffer", buf, "offset", (json_int_t)span.off);
}

static json_t *json_step(const struct sched *s, const struct sched_step *st)
{
	json_t *after = json_array();

	for (uint32_t k = 0; k < st->ndep; k++)
		json_array_append_new(after, json_integer(s->deps[st->dep + k].step));
	return json_pack("{s:s, s:o, s:o, s:o, s:I, s:b, s:b, s:o}", "op", sched_op_name(st->op),
	                 "peer", st->peer < 0 ? json_null() : json_integer(st->peer), "dst",
	                 json_place(s, st, true), "src", json_place(s, st, false), "count",
	                 (json_int_t)st->len, "wire_left", st->flags & SCHED_WIRE_LEFT ? 1 : 0,
	                 "final", st->flags & SCHED_FINAL ? 1 : 0, "after", after);
}

static json_t *json_ranks(const struct planned *p, int rank)
{
	json_t *ranks = json_array();

	for (int r = 0; r < p->args.size; r++) {
		json_t *steps;

		if (rank >= 0 && r != rank)
			continue;
		steps = json_array();
		for (uint32_t i = 0; i < p->scheds[r]->nsteps; i++)
			json_array_append_new(steps,
			                      json_step(p->scheds[r], &p->scheds[r]->steps[i]));
		json_array_append_new(ranks, json_pack("{s:i, s:o}", "rank", r, "steps", steps));
	}
	return ranks;
}

/* "steps" is the row's figure; "chain" what waits for what in these very schedules. */
static int print_json(const struct planned *p, int rank)
{
	const struct sched_figures *f = &p->figures;
	json_t *all =
	        json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "collective",
	                  coll_name(p->alg->kind), "algorithm", p->alg->name, "size", p->args.size,
	                  "count", (json_int_t)p->off[p->args.size], "steps",
	                  (json_int_t)p->cost.rounds, "chain", (json_int_t)f->rounds, "messages",
	                  (json_int_t)f->messages, "bytes", (json_int_t)(f->elements * p->item),
	                  "peers", (json_int_t)f->peers, "scratch", (json_int_t)f->scratch);

	if (all && p->verified)
		json_object_set_new(all, "verified", json_true());
	if (all)
		json_object_set_new(all, "ranks", json_ranks(p, rank));
	return report_json(all);
}

int cmd_plan(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = {.rank = ERR_RANK_SELF};
	struct planned p = {0};
	int code = 0;

	(void)argc;
	if (planned_init(&p, o, argv[1], &err) || build_all(&p, &err) ||
	    (o->verify && verify(&p, &err)))
		code = report_failure(cmd->name, o->json, &err, -1, "start");
	else if (o->json)
		code = print_json(&p, o->rank);
	else
		print_text(&p, o->rank);
	planned_release(&p);
	return code;
}
