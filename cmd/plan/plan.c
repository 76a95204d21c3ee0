/*
 * plan: shows an algorithm's schedules offline, with their price and, on request, a proof of their
 * correctness. It builds the same schedules that the collective would run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/table.h"
#include "cmd/commands.h"
#include "cmd/plan/plan.h"
#include "lib/coll/files/written.h"
#include "lib/coll/request/request.h"
#include "lib/price/cost.h"
#include "lib/price/fill.h"
#include "lib/price/tuning.h"
#include "lib/sched/placement.h"

#define DEFAULT_BYTES (UINT64_C(1) << 20)

/* The largest plan, in bytes of schedules; a larger one could exhaust the machine's memory. */
#define PLAN_MAX (UINT64_C(8) << 30)

static void planned_release(struct planned *p)
{
	for (int r = 0; p->scheds && r < p->args.size; r++)
		sched_free(p->scheds[r]);
	free(p->scheds);
	free(p->off);
	free(p->host);
	free(p->one_host);
	free(p->joint);
	selection_release(&p->selection);
	tuning_release(&p->tuning);
	network_release(&p->network);
	free(p->shares);
	free(p->weighted_off);
}

/* ---- options ---- */

/* --hosts gives the number of ranks, too. */
static int take_hosts(struct planned *p, struct options *o, struct err *err)
{
	int size;

	if (!o->hosts)
		return 0;
	if (plan_hosts(o->hosts, &p->host, &size, err) < 0)
		return -1;
	if (o->request.settings.size > 0 && o->request.settings.size != size)
		return err_set(err, ERR_USAGE, "--hosts: %s are %d ranks, but --size is %d",
		               o->hosts, size, o->request.settings.size);
	o->request.settings.size = size;
	return 0;
}

static int check_options(const struct options *o, struct err *err)
{
	if (o->request.settings.size < 1)
		return err_set(err, ERR_USAGE,
		               "--size: give the number of ranks (-n P), or --hosts");
	if (o->request.settings.rank >= o->request.settings.size)
		return err_set(err, ERR_USAGE, "--rank: %d is not below the size, %d",
		               o->request.settings.rank, o->request.settings.size);
	if (o->request.root_host)
		return err_set(err, ERR_USAGE,
		               "--root: '%s' is not a number: plan needs the number of a rank",
		               o->request.root_host);
	if (o->request.root >= o->request.settings.size)
		return err_set(err, ERR_USAGE, "--root: %d is not below the size, %d",
		               o->request.root, o->request.settings.size);
	if (o->have_count && o->have_bytes)
		return err_set(err, ERR_USAGE, "--count and --bytes: give one of them");
	if (o->host_cpus && o->request.tuning && o->request.settings.lanes == JOB_LANES_TCP)
		return err_set(err, ERR_USAGE,
		               "--host-cpus and --tuning: give one of them, or leave out --lanes "
		               "tcp; the tuning file already has the rates of TCP");
	if (o->rates && o->host_cpus && !o->hosts)
		return err_set(err, ERR_USAGE,
		               "--rates and --host-cpus: one host has no links; give --hosts, too");
	if (o->json && options_svg_to_stdout(o))
		return err_set(err, ERR_USAGE,
		               "--json and --svg - both write to stdout: give one of them");
	if (o->svg && o->request.settings.rank >= 0)
		return err_set(err, ERR_USAGE, "--svg draws all ranks: remove --rank or --svg");
	if (o->compare && (o->verify || o->request.settings.rank >= 0 ||
	                   strcmp(o->request.algorithm, "auto") != 0))
		return err_set(err, ERR_USAGE,
		               "--compare predicts all algorithms: remove %s or --compare",
		               o->verify                       ? "--verify"
		               : o->request.settings.rank >= 0 ? "--rank"
		                                               : "--algorithm");
	return 0;
}

/* exchange: the largest number of partners by default. */
static int take_steps(struct planned *p, struct err *err)
{
	const struct options *o = p->o;
	unsigned most = 0;

	while (o->request.settings.size % (2 << most) == 0)
		most++;
	if (p->kind != COLL_EXCHANGE)
		return 0;
	if (o->request.settings.size > 1 && ((unsigned)o->request.steps > most || !most))
		return err_set(err, ERR_USAGE,
		               "--steps %d: %d (2 to that power) does not divide the %d ranks",
		               o->request.steps ? o->request.steps : 1,
		               o->request.steps ? 1 << o->request.steps : 2,
		               o->request.settings.size);
	p->args.steps = o->request.steps ? (unsigned)o->request.steps : most;
	return 0;
}

static uint64_t count_of(const struct planned *p)
{
	const struct options *o = p->o;
	const uint64_t bytes = o->have_bytes ? o->bytes : DEFAULT_BYTES;

	if (p->kind == COLL_BARRIER)
		return 1;
	return o->have_count ? o->count : bytes / p->item + (bytes % p->item > 0);
}

/* A barrier's notice is a byte, and the result does not depend on the order of the ranks' notices.
 */
static int take_types(struct planned *p, struct err *err)
{
	const struct options *o = p->o;
	enum reduce_op op = request_run_op(&o->request);

	p->select.dtype = o->request.files.dtype == DTYPE_NONE ? DTYPE_F32 : o->request.files.dtype;
	if (request_check_op(p->kind, o->request.op, err) < 0 ||
	    request_check_contributions(&o->request, (uint64_t)o->request.settings.size, err) < 0)
		return -1;
	if (p->kind == COLL_BARRIER) {
		p->select.dtype = DTYPE_U8;
		op = REDUCE_BAND;
	}
	if (coll_reduces(p->kind) && !reduce_op_defined(op, p->select.dtype))
		return err_set(err, ERR_USAGE, "--op %s is not defined on %s",
		               reduce_op_name(o->request.op), dtype_name(p->select.dtype));
	p->select.op = op;
	p->item = dtype_size(p->select.dtype);
	return 0;
}

static int lay_out(struct planned *p, uint64_t count, struct err *err)
{
	const struct options *o = p->o;

	/* No algorithm sends more than every vector to every rank; that must fit 63 bits. */
	if (count > INT64_MAX / p->item / (uint64_t)o->request.settings.size)
		return err_set(err, ERR_USAGE, "--count: %" PRIu64 " elements are too many", count);
	const size_t size = (size_t)o->request.settings.size;
	p->off = err_calloc(size + 1, sizeof *p->off, "the plan", err);
	p->scheds = err_calloc(size, sizeof *p->scheds, "the plan", err);
	if (!p->off || !p->scheds)
		return -1;
	if (coll_reduces(p->kind) && reduce_is_joint(o->request.op) &&
	    !(p->joint = err_calloc(size, sizeof *p->joint, "the plan", err)))
		return -1;
	for (size_t r = 0; p->joint && r < size; r++)
		p->joint[r] = 1;
	coll_split(count, o->request.settings.size, p->off);
	p->args = (struct coll_args){.size = o->request.settings.size,
	                             .root = o->request.root,
	                             .ninputs = 1,
	                             .joint = p->joint,
	                             .stores = true,
	                             .off = p->off,
	                             .host = p->host,
	                             .base = (unsigned)o->request.base,
	                             .esize = (unsigned)p->item};
	return take_steps(p, err);
}

/* The network of --rates, and the blocks by it. */
static int take_rates(struct planned *p, struct err *err)
{
	const struct options *o = p->o;
	const size_t n = (size_t)p->args.size;
	const int hosts = p->host ? hosts_count(&p->args) : p->args.size;

	if (!(p->shares = err_calloc(n, sizeof *p->shares, "the plan", err)) ||
	    !(p->weighted_off = err_calloc(n + 1, sizeof *p->weighted_off, "the plan", err)))
		return -1;
	if (o->rates && o->nrates != hosts)
		return err_set(err, ERR_USAGE, "--rates: there are %d rates and %d %s", o->nrates,
		               hosts, p->host ? "hosts" : "ranks");
	if (o->rates && network_init(&p->network, hosts, false, err) < 0)
		return -1;
	for (int h = 0; o->rates && h < hosts; h++)
		network_add(&p->network, h,
		            &(struct network_found){o->rates[2 * h], o->rates[2 * h + 1],
		                                    NETWORK_TOLD, 0, 0});
	if (o->rates) {
		network_settle(&p->network, &price_default);
		p->select.network = &p->network;
	}
	struct coll_args placed = p->args;
	placed.host = p->select.host;
	if (network_shares(p->select.network, p->kind, &placed, p->shares, err) < 0)
		return -1;
	fill_cuts(p->shares, p->args.size, coll_count(&p->args), p->args.esize, p->weighted_off);
	return 0;
}

static int price(struct planned *p, struct err *err)
{
	const struct options *o = p->o;
	struct select_args *s = &p->select;

	if (o->request.tuning && tuning_read(&p->tuning, o->request.tuning, err) < 0)
		return -1;
	if (!p->host && o->host_cpus &&
	    !(p->one_host = err_calloc((size_t)p->args.size, sizeof *p->one_host, "the plan", err)))
		return -1;
	s->kind = p->kind;
	s->size = p->args.size;
	s->bytes = coll_count(&p->args) * p->item;
	s->joint = p->joint;
	s->ordered = coll_reduces(p->kind) && o->request.ordered && !p->joint;
	s->divergent = o->request.divergent;
	s->insecure = o->request.settings.insecure;
	s->memory = o->request.settings.lanes != JOB_LANES_TCP;
	s->host = p->host ? p->host : p->one_host;
	s->host_cpus = o->host_cpus;
	s->base = p->args.base;
	s->steps = p->args.steps;
	s->root = p->args.root;
	s->tuning = o->request.tuning ? &p->tuning : NULL;
	p->args.ordered = s->ordered;
	if (take_rates(p, err) < 0)
		return -1;
	p->model = select_model(s);
	return select_all(s, &p->selection, err);
}

/* Each device has an input where a rank reduces several. A row that needs a device is planned with
 * one, unless --device says that there is none. */
static int take_devices(struct planned *p, struct err *err)
{
	const struct coll_request *r = &p->o->request;
	const struct device_list *list = &r->devices;

	if (r->have_devices && request_check_device(r, p->alg, err) < 0)
		return -1;
	if (p->joint && request_check_joint(r, p->alg, err) < 0)
		return -1;
	if (p->joint || (!list->wanted && !(p->alg && (p->alg->flags & COLL_DEVICES))))
		return 0;
	p->args.devices = list->n ? list->n : 1;
	if (coll_reduces(p->kind))
		p->args.ninputs = p->args.devices;
	return 0;
}

struct coll_args plan_args(const struct planned *p, const struct coll_algorithm *runs)
{
	struct coll_args a = p->args;

	if (runs->flags & COLL_WEIGHTED)
		a.off = p->weighted_off;
	return a;
}

static int choose(struct planned *p, struct err *err)
{
	if (request_algorithm(p->kind, p->o->request.algorithm, &p->alg, err) < 0 ||
	    (p->alg && p->select.ordered && request_check_order(p->alg, err) < 0))
		return -1;
	if (!p->alg)
		p->alg = p->selection.alg;
	if (take_devices(p, err) < 0)
		return -1;
	if (!p->alg)
		return err_set(err, ERR_USAGE, "no algorithm of %s can run this job; see --compare",
		               coll_name(p->kind));
	p->runs = coll_resolve(p->alg, &p->args);
	p->args = plan_args(p, p->runs);
	p->cost = coll_cost_on(p->alg, &p->args, p->model.ports);
	p->wire = select_wire(&p->select, p->runs);
	const struct select_price *price = selection_price(&p->selection, p->alg);
	p->formula =
	        price ? price->formula
	              : price_formula(&p->model, &p->cost,
	                              (double)coll_count(&p->args) * (double)dtype_size(p->wire));
	return 0;
}

static int planned_init(struct planned *p, const char *collective, struct err *err)
{
	if (coll_by_name(collective, &p->kind))
		return err_set(err, ERR_USAGE,
		               "%s: unknown collective; 'collctl algorithms' lists them",
		               collective);
	if (check_options(p->o, err) < 0 || take_types(p, err) < 0 ||
	    lay_out(p, count_of(p), err) < 0 || price(p, err) < 0)
		return -1;
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

static int build(struct planned *p, int rank, struct err *err)
{
	struct coll_args a = p->args;
	enum sched_error e;

	a.rank = rank;
	p->scheds[rank] = coll_build(p->alg, &a, &e);
	if (!e)
		return 0;
	return err_set(err, e == SCHED_NOMEM ? ERR_RESOURCE : ERR_OTHER, "%s of rank %d: %s",
	               p->alg->name, rank, sched_strerror(e));
}

/* The verifier and the simulator return errors as text only. */
static int code_of(const char *why)
{
	return strstr(why, "memory") ? ERR_RESOURCE : ERR_OTHER;
}

static int build_all(struct planned *p, struct err *err)
{
	for (int r = 0; r < p->args.size; r++)
		if (build(p, r, err) < 0 || (r == 0 && check_size(p, err) < 0))
			return -1;
	if (!sched_figures(p->scheds, p->args.size, &p->figures, p->why) ||
	    !simulate_schedules(&p->model, p->scheds, p->args.size, p->args.host,
	                        (unsigned)dtype_size(p->wire), &p->simulated, p->why))
		return err_set(err, code_of(p->why), "%s: %s", p->alg->name, p->why);
	if (p->host && !traffic_of_schedules(p->scheds, p->host, p->args.size, &p->traffic))
		return err_nomem(err, "the hosts", (unsigned long long)p->args.size);
	return 0;
}

/* Build all schedules, or only that of --rank if all are too many. */
static int build_wanted(struct planned *p, struct err *err)
{
	uint64_t steps;

	if (p->o->request.settings.rank < 0 || p->o->verify)
		return build_all(p, err);
	if (!simulate_estimate(p->alg, &p->args, &steps, p->why))
		return err_set(err, code_of(p->why), "%s", p->why);
	p->alone = steps >= SIMULATE_STEPS_MAX;
	snprintf(p->why, sizeof p->why, "%d schedules of about %" PRIu64 " steps in all",
	         p->args.size, steps);
	return p->alone ? build(p, p->o->request.settings.rank, err) : build_all(p, err);
}

static int verify(struct planned *p, struct err *err)
{
	char why[VERIFY_TEXT];

	if (!verify_algorithm(p->alg, &p->args, why))
		return err_set(err, code_of(why), "%s of %d ranks %s: %s", p->alg->name,
		               p->args.size,
		               code_of(why) == ERR_OTHER ? "is wrong" : "is not verified", why);
	p->verified = true;
	return 0;
}

/* ---- the command ---- */

static int show(struct planned *p, struct err *err)
{
	if (p->o->compare && take_devices(p, err) < 0)
		return -1;
	if (p->o->compare && p->o->svg && plan_compare_svg(p, err) < 0)
		return -1;
	if (p->o->compare)
		return options_svg_to_stdout(p->o) ? 0 : plan_compare(p, err);
	if (choose(p, err) < 0 || build_wanted(p, err) < 0 || (p->o->verify && verify(p, err) < 0))
		return -1;
	if (p->o->svg && plan_svg(p, err) < 0)
		return -1;
	if (p->o->json)
		return plan_print_json(p, p->o->request.settings.rank);
	if (!options_svg_to_stdout(p->o))
		plan_print_text(p, p->o->request.settings.rank);
	return 0;
}

int cmd_plan(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;
	struct planned p = {.o = o};
	int code;

	(void)argc;
	const struct named_file files[] = {
	        {"--tuning", o->request.tuning, false},
	        {"--hostfile", o->request.settings.hostfile, false},
	        {"--svg", options_svg_to_stdout(o) ? NULL : o->svg, true}};
	tuning_init(&p.tuning);
	code = written_compare(files, 3, &err) < 0 || take_hosts(&p, o, &err) < 0 ||
	                       planned_init(&p, argv[1], &err) < 0
	               ? -1
	               : show(&p, &err);
	if (code < 0)
		code = report_failure(cmd->name, o->json, &err);
	planned_release(&p);
	return code;
}
