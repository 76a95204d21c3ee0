/*
 * plan: schedules as text and as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/plan/plan.h"
#include "lib/base/text.h"

/* ---- as text ---- */

/* "out", "in1", "scratch0"; in device memory "gpu0.in1" */
static const char *buf_name(const struct sched *s, uint32_t buf, char text[32])
{
	const uint32_t first = buf < s->lifted ? 0 : s->lifted;
	const uint32_t ninputs = first ? 1 : (uint32_t)s->ninputs, k = buf - first;
	char device[16] = "";

	if (s->bufs[buf].place)
		snprintf(device, sizeof(device), "gpu%d.", s->bufs[buf].place - 1);
	if (k == ninputs)
		snprintf(text, 32, "%sout", device);
	else if (k < ninputs)
		snprintf(text, 32, "%sin%" PRIu32, device, k);
	else if (s->bufs[buf].place)
		snprintf(text, 32, "%sout%" PRIu32, device, k - ninputs);
	else
		snprintf(text, 32, "scratch%" PRIu32, k - ninputs - 1);
	return text;
}

/* The buffer of @st's destination or source, or for READ and WRITE steps the file. */
static const char *operand_name(const struct sched *s, const struct sched_step *st, bool dst,
                                char text[32])
{
	const uint32_t buf = dst ? st->dst.buf : st->src.buf;

	if (st->op != (dst ? SCHED_WRITE : SCHED_READ))
		return buf_name(s, buf, text);
	snprintf(text, 32, "%s%" PRIu32, dst ? "output" : "input", buf);
	return text;
}

/* A place of @st, such as "out[4,8)". */
static const char *place(const struct sched *s, const struct sched_step *st, bool dst,
                         char text[96])
{
	const struct sched_span span = dst ? st->dst : st->src;
	char name[32];

	snprintf(text, 96, "%s[%" PRIu64 ",%" PRIu64 ")", operand_name(s, st, dst, name), span.off,
	         span.off + st->len);
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
	case SCHED_IDENTITY:
		printf("%s <- the identity", place(s, st, true, dst));
		break;
	case SCHED_LOCAL_REDUCE:
		printf("%s <- all inputs", place(s, st, true, dst));
		break;
	case SCHED_JOINT:
		printf("%s <- %" PRIu32 " contributions from %s on", place(s, st, true, dst),
		       s->njoint, place(s, st, false, src));
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

const char *plan_rates_words(const struct planned *p, char *text, size_t cap)
{
	const char *connections = select_in_memory(&p->select) ? "memory"
	                          : p->select.insecure         ? "plain TCP"
	                                                       : "TLS";
	char file[200];

	if (p->o->rates)
		snprintf(text, cap, "%s, links of --rates", connections);
	else if (p->o->request.tuning)
		snprintf(text, cap, "%s, rates of %s", connections,
		         text_escape(file, sizeof file, p->o->request.tuning));
	else if (p->o->host_cpus)
		snprintf(text, cap, "%s, %s of %d processors", connections,
		         p->host ? "hosts" : "a host", p->o->host_cpus);
	else
		snprintf(text, cap, "%s, built-in rates", connections);
	return text;
}

void plan_print_text(const struct planned *p, int rank)
{
	const struct sched_figures *f = &p->figures;
	const uint64_t count = coll_count(&p->args), item = dtype_size(p->wire);
	char rates[256];

	printf("%s %s", coll_name(p->kind), p->alg->name);
	if (p->runs != p->alg)
		printf(", which falls back to %s", p->runs->name);
	printf(", %d rank%s, %" PRIu64 " elements, %" PRIu64 " bytes of %s", p->args.size,
	       p->args.size == 1 ? "" : "s", count, count * p->item, dtype_name(p->select.dtype));
	printf(p->wire != p->select.dtype ? ", sent as %s\n" : "\n", dtype_name(p->wire));
	plan_rates_words(p, rates, sizeof rates);
	if (p->alone) {
		printf("%.0f steps; at most %.0f messages, %.0f bytes sent per rank\n",
		       p->cost.rounds, p->cost.messages, p->cost.sent * (double)(count * item));
		printf("predicted: %.3f ms by formula, not simulated (%s); %s\n", p->formula * 1e3,
		       p->why, rates);
	} else {
		printf("%.0f steps; at most %" PRIu64 " messages, %" PRIu64 " bytes sent, %" PRIu64
		       " peers, %" PRIu64 " elements of scratch per rank\n",
		       p->cost.rounds, f->messages, f->elements * item, f->peers, f->scratch);
		printf("predicted: %.3f ms by formula, %.3f ms simulated; %s\n", p->formula * 1e3,
		       p->simulated.seconds * 1e3, rates);
	}
	if (p->host && !p->alone)
		printf("hosts: %s; at most %" PRIu64 " bytes leave a host, %" PRIu64 " enter one\n",
		       p->o->hosts, p->traffic.leaves * item, p->traffic.enters * item);
	if (p->kind == COLL_BARRIER && strcmp(p->o->request.algorithm, "auto") == 0)
		puts(BARRIER_AUTO);
	if (p->verified)
		printf("verified: all %d schedules\n", p->args.size);
	if (rank < 0 && p->args.size > PLAN_STEPS_RANKS) {
		puts("steps: --rank R prints those of rank R, --json those of all ranks");
		return;
	}
	for (int r = 0; r < p->args.size; r++)
		if (rank < 0 || r == rank)
			print_rank(p->scheds[r]);
}

/* ---- as JSON ---- */

static json_t *json_place(const struct sched *s, const struct sched_step *st, bool dst)
{
	const struct sched_span span = dst ? st->dst : st->src;
	char name[32];

	if (span.buf == SCHED_NONE)
		return json_null();
	return json_pack("{s:s, s:I}", "buffer", operand_name(s, st, dst, name), "offset",
	                 (json_int_t)span.off);
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

/* A value that needs all schedules, or null if they are not built. */
static json_t *known(const struct planned *p, uint64_t x)
{
	return p->alone ? json_null() : json_integer((json_int_t)x);
}

/* The host of each rank, and the bytes of the busiest one. */
static json_t *json_hosts(const struct planned *p)
{
	const uint64_t item = dtype_size(p->wire);
	json_t *of = json_array();

	for (int r = 0; r < p->args.size; r++)
		json_array_append_new(of, json_integer(p->host[r]));
	return json_pack("{s:o, s:o, s:o}", "of_ranks", of, "bytes_out",
	                 known(p, p->traffic.leaves * item), "bytes_in",
	                 known(p, p->traffic.enters * item));
}

/* "steps" is the figure of the algorithm's row; "chain" is the longest chain in these schedules. */
int plan_print_json(const struct planned *p, int rank)
{
	const struct sched_figures *f = &p->figures;
	json_t *all = json_pack(
	        "{s:s, s:b, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, "
	        "s:{s:f, s:o}}",
	        "command", "plan", "ok", 1, "collective", coll_name(p->kind), "algorithm",
	        p->alg->name, "runs", p->runs->name, "dtype", dtype_name(p->select.dtype), "wire",
	        dtype_name(p->wire), "size", p->args.size, "count",
	        (json_int_t)coll_count(&p->args), "steps", (json_int_t)p->cost.rounds, "chain",
	        known(p, f->rounds), "messages", known(p, f->messages), "bytes",
	        known(p, f->elements * dtype_size(p->wire)), "peers", known(p, f->peers), "scratch",
	        known(p, f->scratch), "predicted", "formula", p->formula, "simulated",
	        p->alone ? json_null() : json_real(p->simulated.seconds));

	if (all && p->host)
		json_object_set_new(all, "hosts", json_hosts(p));
	if (all && p->verified)
		json_object_set_new(all, "verified", json_true());
	if (all)
		json_object_set_new(all, "ranks", json_ranks(p, rank));
	json_object_set_new(all, "error", json_null());
	return report_json(all);
}
