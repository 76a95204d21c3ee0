/* The agreement, and the connections to the other ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/job/failed_links.h"
#include "lib/job/job_internal.h"
#include "lib/job/ranks.h"

/* ---- agreeing ---- */

/* A data listener: at the local address of the control link, or as --listen, --iface and
 * --port-range say. */
static int listen_for_data(struct job *j, struct err *err)
{
	struct addr a = {.len = sizeof a.sa};
	char text[ADDR_TEXT], host[ADDR_TEXT] = "";
	int port = 0;
	if (j->conf.settings->addresses.listen) {
		if (addr_split(j->conf.settings->addresses.listen, host, sizeof host, &port, err) <
		    0)
			return -1;
		/* The port of --listen belongs to the coordinator's control listener. */
		if (port < 0 || j->coord)
			port = 0;
		if (addr_resolve(&a, host, port, true, err) < 0)
			return -1;
	} else if (j->conf.settings->addresses.iface) {
		if (addr_of_iface(&a, j->conf.settings->addresses.iface, err) < 0)
			return -1;
	} else if (j->coord) {
		if (coord_local_addr(j->coord, &a, err) < 0)
			return -1;
		addr_set_port(&a, 0);
	} else {
		if (getsockname(j->ctl.conn->fd, (struct sockaddr *)&a.sa, &a.len) < 0)
			return err_errno(err, ERR_OTHER, "getsockname");
		addr_set_port(&a, 0);
	}
	j->links.data_fd = addr_listen(&a, j->conf.settings->addresses.port_lo,
	                               j->conf.settings->addresses.port_hi, 512, err);
	if (j->links.data_fd < 0)
		return -1;
	port = addr_port(&a);
	if (j->conf.settings->addresses.advertise) {
		int given;
		if (addr_split(j->conf.settings->addresses.advertise, host, sizeof host, &given,
		               err) < 0)
			return -1;
		/* As with --listen, the port belongs to the coordinator's control listener. */
		if (given >= 0 && !j->coord)
			port = given;
		addr_join(host, port, j->links.data_addr, sizeof j->links.data_addr);
	} else if (j->coord) {
		snprintf(j->links.data_addr, sizeof j->links.data_addr, ":%d", port);
	} else {
		/* A listener on any address announces the address that reaches the coordinator. */
		struct addr here = {.len = sizeof here.sa};
		if (addr_is_any(&a) &&
		    getsockname(j->ctl.conn->fd, (struct sockaddr *)&here.sa, &here.len) == 0) {
			addr_set_port(&here, port);
			a = here;
		}
		snprintf(j->links.data_addr, sizeof j->links.data_addr, "%s",
		         addr_text(&a, true, text));
	}
	return 0;
}

static void listen_at_lanes(struct job *j)
{
	struct err why = {0};
	j->links.lanes_fd = addr_listen_lanes(&j->links.lanes, &why);
	if (j->links.lanes_fd < 0)
		job_log(j, 1, "no memory lanes to this rank: %s", why.text);
}

/* A listener for memory lanes. Its address is that of the data listener as others know it, so they
 * need not learn another one. Without it they use TCP. */
static void listen_for_lanes(struct job *j)
{
	const char *colon = strrchr(j->links.data_addr, ':');
	addr_of_lanes(&j->links.lanes, colon ? atoi(colon + 1) : 0, j->rank);
	listen_at_lanes(j);
}

/* ": nodea (ranks 0-3), nodeb (ranks 4-7)", as far as the names are known; "". */
static const char *name_hosts(const struct job *j, char *text, size_t cap)
{
	size_t len = 0;
	*text = '\0';
	for (int r = 0; r < j->size && len < cap; r++) {
		const char *host = job_host(j, r);
		char list[64];
		struct rank_list ranks;
		int first = 0, n = 0;
		while (first < r && strcmp(job_host(j, first), host) != 0)
			first++;
		if (!*host || first < r)
			continue;
		rank_list_init(&ranks, list, sizeof list);
		for (int k = r; k < j->size; k++)
			if (strcmp(job_host(j, k), host) == 0) {
				rank_list_add(&ranks, k);
				n++;
			}
		rank_list_end(&ranks);
		len += (size_t)snprintf(text + len, cap - len, "%s%s (rank%s %s)",
		                        len ? ", " : ": ", host, n > 1 ? "s" : "", list);
	}
	return text;
}

static void say_who_came(const struct job *j, const struct plan *plan)
{
	char hosts[320], who[96] = "", missing[128];
	if (plan->came)
		snprintf(who, sizeof who, "%d of %d ranks (missing: %.60s)", plan->ncame, j->size,
		         ranks_missing(plan->came, plan->ncame, j->size, missing, sizeof missing));
	else
		snprintf(who, sizeof who, "all %d ranks", j->size);
	job_log(j, 1, "%s have joined and agree; they are on %d host%s%s", who, plan->hosts,
	        plan->hosts == 1 ? "" : "s", name_hosts(j, hosts, sizeof hosts));
}

static int send_intent(struct job *j, struct err *err)
{
	struct intent *in = j->join.intent;
	struct buf b;
	if (j->join.mesh && j->links.data_fd < 0) {
		if (listen_for_data(j, err) < 0)
			return -1;
		if (j->conf.settings->lanes != JOB_LANES_TCP)
			listen_for_lanes(j);
	}
	memcpy(in->data_addr, j->links.data_addr, sizeof in->data_addr);
	if (j->coord && j->links.data_fd >= 0)
		coord_take_inquiries(j->coord, j->links.data_fd, j->tls != NULL);
	buf_init(&b, CTL_BODY_MAX);
	intent_encode(in, &b);
	job_move(j, JOB_AGREEING);
	job_send(j, MSG_INTENT, &b);
	buf_release(&b);
	return 0;
}

int job_offer(struct job *j, struct intent *in, bool mesh, const struct job_callbacks *callbacks,
              struct err *err)
{
	j->callbacks = *callbacks;
	if (in->crowded)
		return err_set(err, ERR_OTHER, "more than %d facts to agree on", FACTS_MAX);
	j->join.intent = in;
	j->join.mesh = mesh;
	if (!j->coord && !ctl_open(&j->ctl)) /* lost meanwhile: the next link, if any, gets it */
		return 0;
	return send_intent(j, err);
}

static void stop_listening(struct job *j)
{
	if (j->links.data_fd >= 0)
		close(j->links.data_fd);
	if (j->links.lanes_fd >= 0)
		close(j->links.lanes_fd);
	j->links.data_fd = j->links.lanes_fd = -1;
}

int job_offer_again(struct job *j, struct err *err)
{
	stop_listening(j); /* the new link may have another local address */
	return send_intent(j, err);
}

int job_agree(struct job *j, struct plan *plan, struct err *err)
{
	/* The coordinator enforces the deadline of the join; if it is silent a little longer, it is
	 * lost. */
	int64_t until = j->join.deadline + j->conf.settings->timeout;
	while (j->state != JOB_RUNNING) {
		if (clock_ns() >= until)
			return err_rank(err, ERR_RENDEZVOUS, j->coordinator,
			                "sent no ROSTER message");
		if (job_turn_before(j, until, err) < 0)
			return -1;
	}
	job_drop_links(j); /* of the session before, which nobody uses any more */
	*plan = j->said.plan;
	say_who_came(j, plan);
	return 0;
}

/* ---- connecting ---- */

static void mesh_ready(void *ctx)
{
	job_advances(ctx);
}

static void note_peer(const struct job *j, const char *what, int peer)
{
	char text[ADDR_TEXT];
	const char *host = job_host(j, peer);
	job_log(j, 2, "%s rank %d%s%s%s at %s", what, peer, *host ? " (" : "", host,
	        *host ? ")" : "", addr_text(&j->places.addrs[peer], true, text));
}

static int open_mesh(struct job *j, struct mesh_conf *m, struct err *err)
{
	int lanes = (m->nout + m->nin) * m->streams;
	char what[64];
	job_phase(j, PHASE_CONNECT);
	snprintf(what, sizeof what, "the %d connections to other ranks", lanes);
	if (need_descriptors(lanes, what, err) < 0 ||
	    job_find_peers(j, m->out, m->nout, m->in, m->nin, err) < 0)
		return -1;
	m->loop = &j->loop;
	m->tls = j->tls;
	m->rank = j->rank;
	m->size = j->size;
	m->addrs = j->places.addrs;
	m->limit_rate = j->conf.settings->limit_rate;
	m->congestion = j->conf.settings->congestion;
	m->listen_fd = j->links.data_fd;
	m->borrowed = true; /* for inquiries, and to show that this process lives (coord_probe.c) */
	m->lanes_fd = j->links.lanes_fd;
	m->on_ready = mesh_ready;
	m->ctx = j;
	memcpy(m->session, j->back.session, sizeof m->session);
	m->keys = (const uint8_t(*)[TLS_KEY_BYTES])j->places.keys;
	j->links.lanes_fd = -1;
	for (int i = 0; i < m->nout; i++)
		note_peer(j, "sending to", m->out[i]);
	for (int i = 0; i < m->nin; i++)
		note_peer(j, "receiving from", m->in[i]);
	if (j->tls) {
		tls_carry_data(j->tls);
		job_log(j, 1, "TLS records of data: %s", tls_records(NULL));
	}
	j->links.mesh = mesh_open(m, err);
	m->keys = NULL;
	job_forget_keys(j);
	return j->links.mesh ? 0 : -1;
}

/* The ranks that may share memory with this one. */
static int find_near(struct job *j, struct err *err)
{
	j->links.near =
	        err_calloc((size_t)j->size, sizeof *j->links.near, "the ranks of this host", err);
	if (!j->links.near)
		return -1;
	for (int r = 0; r < j->size; r++)
		j->links.near[r] = r != j->rank && job_shares_host(j, r);
	return 0;
}

/* With --lanes memory an edge inside the host must be a memory lane. */
static int check_lanes(const struct job *j, const int *out, int nout, struct err *err)
{
	for (int i = 0; i < nout; i++) {
		const char *why = mesh_no_memory(j->links.mesh, out[i]);
		if (!why)
			continue;
		if (j->conf.settings->lanes == JOB_LANES_MEMORY)
			return err_rank(
			        err, ERR_RESOURCE, out[i],
			        "no memory lane to rank %d: %s; --lanes auto uses TCP there",
			        out[i], why);
		job_log(j, 1, "no memory lane to rank %d, so TCP: %s", out[i], why);
	}
	return 0;
}

struct mesh *job_connect(struct job *j, const int *out, int nout, const int *in, int nin,
                         int streams, size_t buffer, size_t arena, struct err *err)
{
	struct mesh_conf m = {
	        .out = out,
	        .in = in,
	        .nout = nout,
	        .nin = nin,
	        .streams = streams,
	        .buffer = buffer,
	        .arena_bytes = arena,
	};
	int state;
	if (arena && j->conf.settings->lanes != JOB_LANES_TCP && !j->links.near &&
	    find_near(j, err) < 0)
		return NULL;
	m.near = j->links.near;
	if (open_mesh(j, &m, err) < 0)
		return NULL;
	while ((state = mesh_state(j->links.mesh, err)) == 0 && !job_goes_back(j))
		if (job_turn(j, err) < 0)
			return NULL;
	if (job_goes_back(j)) {
		err_clear(err);
		return j->links.mesh;
	}
	return state > 0 && check_lanes(j, out, nout, err) == 0 ? j->links.mesh : NULL;
}

struct mesh *job_connect_each(struct job *j, const int *out, int nout, const int *in, int nin,
                              size_t buffer, job_edge *fn, void *ctx, struct err *err)
{
	struct mesh_conf m = {
	        .out = out,
	        .in = in,
	        .nout = nout,
	        .nin = nin,
	        .streams = 1,
	        .buffer = buffer,
	        .on_edge = fn,
	        .edge_ctx = ctx,
	};
	return open_mesh(j, &m, err) < 0 ? NULL : j->links.mesh;
}

void job_connect_end(struct job *j)
{
	if (j->links.mesh)
		mesh_stop(j->links.mesh);
}

void job_link_failed(struct job *j, int from, int to, enum link_state state, const char *why)
{
	if (j->links.failed.len < CTL_BODY_MAX - LINK_WHY - 64)
		link_encode(from, to, state, why, &j->links.failed);
}

struct view job_failed_links(const struct job *j)
{
	return view_of(j->links.failed.data, j->links.failed.len);
}

int64_t job_timeout(const struct job *j)
{
	return j->conf.settings->timeout;
}

_Static_assert(JOB_ROUND_MAX <= CTL_BODY_MAX, "a part is one message");

int job_round(struct job *j, const struct buf *part, struct view *answer, struct err *err)
{
	if (job_ask(j, ASKS_ROUND, MSG_ROUND, part, err) < 0)
		return -1;
	if (answer)
		*answer = view_of(j->said.answer.data, j->said.answer.len);
	return 0;
}

void job_stop_links(struct job *j)
{
	if (j->links.mesh) {
		mesh_stop(j->links.mesh);
		mesh_settle(j->links.mesh);
	}
	if (j->links.lanes_fd < 0 && j->links.lanes.len)
		listen_at_lanes(j);
}

void job_drop_links(struct job *j)
{
	mesh_close(j->links.mesh);
	free(j->links.near);
	j->links.mesh = NULL;
	j->links.near = NULL;
}

void job_release_links(struct job *j)
{
	struct job_links *l = &j->links;
	stop_listening(j);
	free(l->near);
	buf_release(&l->failed);
}
