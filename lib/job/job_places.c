/* Where the other ranks are: their addresses, hosts and keys. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/private.h"
#include "lib/job/job_internal.h"
#include "lib/job/ranks.h"
#include "lib/net/iface.h"

/* The address of a data listener; a port alone is on the coordinator's host. */
static int read_addr(struct addr *a, const char *text, const struct addr *coordinator,
                     struct err *err)
{
	char host[ADDR_TEXT];
	int port;
	if (addr_split(text, host, sizeof host, &port, err) < 0)
		return -1;
	if (host[0])
		return addr_resolve(a, host, port, false, err);
	*a = *coordinator;
	addr_set_port(a, port);
	return 0;
}

/* As this rank reaches it over its link. */
static struct addr coordinator_addr(const struct job *j)
{
	struct addr a = {.len = sizeof a.sa};
	if (j->ctl.conn)
		getpeername(j->ctl.conn->fd, (struct sockaddr *)&a.sa, &a.len);
	return a;
}

/* The rank whose place comes next: of those in PEERS or, in ROSTER, of all. */
static int next_place(const struct job *j)
{
	const struct buf *asked = &j->places.asked;
	return asked->len ? (int)get_u32(asked->data + asked->len - 4 * (size_t)j->places.awaited)
	                  : j->size - j->places.awaited;
}

int job_read_places(struct job *j, struct view v, struct err *err)
{
	const struct addr coordinator = coordinator_addr(j);
	while (view_left(&v)) {
		struct rank_place p;
		if (rank_place_decode(&p, &v, err) < 0) {
			err->rank = err->code == ERR_DISAGREE ? j->coordinator : err->rank;
			return -1;
		}
		if (!j->places.awaited || p.rank != next_place(j)) {
			wipe(p.key, sizeof p.key);
			return err_set(err, ERR_INTEGRITY,
			               "a place that this rank did not ask for");
		}
		memcpy(j->places.names[p.rank], p.host, sizeof p.host);
		memcpy(j->places.keys[p.rank], p.key, sizeof p.key);
		wipe(p.key, sizeof p.key);
		if (p.addr[0] && read_addr(&j->places.addrs[p.rank], p.addr, &coordinator, err) < 0)
			return -1;
		j->places.awaited--;
	}
	return 0;
}

/* Where, and with which key, this rank asks for the verdict if its link breaks. */
static int read_inquiry(struct job *j, struct view *v, struct err *err)
{
	struct rank_place p;
	int ret = rank_place_decode(&p, v, err);
	if (ret == 0 && p.addr[0] && p.rank != j->coordinator)
		ret = err_set(err, ERR_INTEGRITY, "a roster with another coordinator");
	if (ret == 0 && !j->coord && p.addr[0]) {
		const struct addr coordinator = coordinator_addr(j);
		ret = read_addr(&j->inquiry.at, p.addr, &coordinator, err);
		memcpy(j->inquiry.key, p.key, sizeof p.key);
		j->inquiry.possible = ret == 0;
	}
	wipe(p.key, sizeof p.key);
	return ret;
}

/* Does @rank take part in the job (plan.came)? */
static bool comes(const struct job *j, int rank)
{
	const struct job_places *p = &j->places;
	return ranks_find(p->came, p->ncame, rank) >= 0;
}

int job_read_roster(struct job *j, struct view v, struct err *err)
{
	struct roster r;
	if (roster_decode(&r, &v, err) < 0)
		return -1;
	job_release_places(j);
	j->places.came = r.came;
	j->places.ncame = r.ncame;
	j->places.host = r.host;
	j->places.hosts = r.hosts;
	if ((j->size && r.size != (uint32_t)j->size) || j->rank >= (int)r.size ||
	    j->root >= (int)r.size || j->coordinator >= (int)r.size ||
	    j->beats.slowest.rank >= (int)r.size)
		return err_set(err, ERR_INTEGRITY, "a roster of %u ranks", r.size);
	if (!comes(j, j->rank) || (j->root >= 0 && !comes(j, j->root)) ||
	    !comes(j, j->coordinator) || !comes(j, 0))
		return err_set(err, ERR_INTEGRITY, "a roster without a rank that takes part");
	j->size = (int)r.size;
	if (read_inquiry(j, &v, err) < 0)
		return -1;
	struct job_places *p = &j->places;
	p->addrs = err_calloc(r.size, sizeof *p->addrs, "the addresses", err);
	p->names = err_calloc(r.size, sizeof *p->names, "the names of the hosts", err);
	p->keys = err_calloc(r.size, sizeof *p->keys, "the keys of the lanes", err);
	if (!p->addrs || !p->names || !p->keys)
		return -1;
	j->places.awaited = r.size <= PROTO_PLACES ? (int)r.size : 0;
	if (job_read_places(j, v, err) < 0)
		return -1;
	return j->places.awaited ? err_set(err, ERR_INTEGRITY, "a roster without all places") : 0;
}

const char *job_host(const struct job *j, int rank)
{
	if (rank >= 0 && rank == j->coordinator && j->said.coordinator_host[0])
		return j->said.coordinator_host;
	if (j->coord && rank >= 0 && rank < j->size)
		return coord_host(j->coord, rank);
	if (rank >= 0 && rank == j->rank && j->said.coordinator_host[0])
		return j->conf.present.host;
	return j->places.names && rank >= 0 && rank < j->size ? j->places.names[rank] : "";
}

/* The control link between this rank and @rank; NULL: there is none. */
static const struct conn *link_to(const struct job *j, int rank)
{
	if (j->coord)
		return coord_link(j->coord, rank);
	return rank == j->coordinator ? j->ctl.conn : NULL;
}

int64_t job_round_trip(const struct job *j, int rank)
{
	const struct conn *link = link_to(j, rank);
	return link ? conn_least_round_trip(link) : 0;
}

uint64_t job_link_speed(const struct job *j)
{
	const struct conn *link = j->coord ? coord_far_link(j->coord) : j->ctl.conn;
	return link ? iface_speed_of(link->fd) : 0;
}

bool job_shares_host(const struct job *j, int rank)
{
	if (rank == j->rank)
		return true;
	return j->places.host && rank >= 0 && rank < j->size &&
	       j->places.host[rank] == j->places.host[j->rank];
}

int job_find_peers(struct job *j, const int *out, int nout, const int *in, int nin, struct err *err)
{
	if (j->size <= PROTO_PLACES || nout + nin == 0)
		return 0;
	for (int i = 0; i < nout; i++)
		buf_put_u32(&j->places.asked, (uint32_t)out[i]);
	for (int i = 0; i < nin; i++)
		buf_put_u32(&j->places.asked, (uint32_t)in[i]);
	if (j->places.asked.failed)
		return err_nomem(err, "the peers of this rank", CTL_BODY_MAX);
	j->places.awaited = nout + nin;
	job_send(j, MSG_PEERS, &j->places.asked);
	while (j->places.awaited > 0)
		if (job_turn(j, err) < 0)
			return -1;
	return 0;
}

void job_forget_keys(struct job *j)
{
	if (j->places.keys)
		wipe(j->places.keys, (size_t)j->size * sizeof *j->places.keys);
}

int job_ranks_here(const struct job *j)
{
	int n = 0;
	for (int r = 0; r < j->size; r++)
		n += r == j->rank || job_shares_host(j, r);
	return n;
}

int job_local_index(const struct job *j)
{
	int index = 0;
	for (int r = 0; j->places.host && r < j->rank; r++)
		index += job_shares_host(j, r);
	return index;
}

void job_release_places(struct job *j)
{
	struct job_places *p = &j->places;
	job_forget_keys(j);
	free(p->keys);
	free(p->addrs);
	free(p->names);
	free(p->came);
	free(p->host);
	buf_release(&p->asked);
	*p = (struct job_places){0};
	buf_init(&p->asked, CTL_BODY_MAX);
}
