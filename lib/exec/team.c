#include "lib/exec/team.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/io.h"

#define PEERS  8   /* that a member reports as waited for */
#define DEVICE 200 /* bytes of the text on the device for which a member waits */
#define YIELDS 20  /* before a member sleeps */

struct member {
	struct team *team;
	struct exec *exec;
	struct devices *devices; /* NULL: none */
	struct loop loop;
	struct loop_watch files, stop;
	int stop_fd;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* of what follows, which other threads read */
	struct exec_stats stats;
	int peers[PEERS], npeers;
	char device[DEVICE]; /* for which it waits; "": none */
	int state;           /* as team_state */
	struct err err;
};

struct team {
	struct exec_conf conf;
	const struct fileio_ops *ops;
	struct devices *devices; /* NULL: none */
	pthread_mutex_t reading, writing;
	int fd;
	_Atomic bool stopping;
	struct member *members;
	int n;
};

/* ---- files: one read and one write at a time ---- */

static int locked_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
                       struct err *err)
{
	struct team *t = ctx;
	pthread_mutex_lock(&t->reading);
	int ret = t->ops->read(t->ops->ctx, vector, input, buf, pos, n, err);
	pthread_mutex_unlock(&t->reading);
	return ret;
}

static int locked_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n,
                        bool final, struct err *err)
{
	struct team *t = ctx;
	pthread_mutex_lock(&t->writing);
	int ret = t->ops->write(t->ops->ctx, vector, buf, pos, n, final, err);
	pthread_mutex_unlock(&t->writing);
	return ret;
}

/* ---- a member's thread ---- */

static void empty(void *ctx, uint32_t events)
{
	const struct loop_watch *w = ctx;
	(void)events;
	event_clear(w->fd);
}

/* @sleeps: the member is about to sleep. */
static void publish(struct member *m, int state, bool sleeps, const struct err *err)
{
	struct exec_stats stats;
	char device[DEVICE] = "";
	exec_stats(m->exec, &stats);
	if (sleeps)
		exec_waits_for_device(m->exec, device, sizeof device);
	pthread_mutex_lock(&m->lock);
	m->stats = stats;
	m->npeers = state ? 0 : exec_waits_for(m->exec, m->peers, PEERS);
	memcpy(m->device, device, *device ? sizeof device : 1);
	if (state < 0)
		m->err = *err;
	m->state = state;
	pthread_mutex_unlock(&m->lock);
	if (state)
		event_signal(m->team->fd);
}

static void *run(void *arg)
{
	struct member *m = arg;
	struct err err = ERR_INIT;
	int ret;
	while ((ret = exec_advance(m->exec, &err)) != 1 && ret >= 0 &&
	       !atomic_load_explicit(&m->team->stopping, memory_order_relaxed)) {
		publish(m, 0, ret == 0, NULL);
		if (loop_turn(&m->loop, ret == EXEC_AGAIN ? 0 : INT64_MAX, &err) < 0) {
			ret = -1;
			break;
		}
	}
	publish(m, ret == 1 ? 1 : ret < 0 ? -1 : 0, false, &err);
	return NULL;
}

/* ---- the team ---- */

static int watch_fd(struct member *m, struct loop_watch *w, int fd, struct err *err)
{
	*w = (struct loop_watch){.fd = fd, .fn = empty, .ctx = w};
	return fd < 0 ? 0 : loop_add(&m->loop, w, EPOLLIN, err);
}

/* The stop descriptor only wakes the loop: the thread ends then. */
static void woken(void *ctx, uint32_t events)
{
	(void)ctx, (void)events;
}

/* Call @fn for each connection of @m's streams. */
static int each_conn(struct member *m, int (*fn)(struct member *, struct conn *, struct err *),
                     struct err *err)
{
	const struct exec_conf *c = &m->team->conf;
	int size = exec_ranks(c), ret = 0;
	for (int k = (int)(m - m->team->members); k < c->streams; k += m->team->n)
		for (int peer = 0; peer < size; peer++)
			for (int out = 0; out < 2 && ret == 0; out++) {
				struct conn *conn = c->conn(c->conn_ctx, peer, out, k);
				ret = conn ? fn(m, conn, err) : 0;
			}
	return ret;
}

static int take_conn(struct member *m, struct conn *conn, struct err *err)
{
	conn_unwatch(conn);
	return conn_watch(conn, &m->loop, conn->on_ready, conn->ctx, err);
}

static int leave_conn(struct member *m, struct conn *conn, struct err *err)
{
	(void)m, (void)err;
	conn_unwatch(conn);
	return 0;
}

static int member_init(struct member *m, int home, struct err *err)
{
	struct exec_conf conf = m->team->conf;
	m->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->stop_fd < 0)
		return err_errno(err, ERR_RESOURCE, "eventfd");
	if (loop_init(&m->loop, err) < 0)
		return -1;
	m->loop.yields = YIELDS;
	conf.members = m->team->n;
	conf.member = (int)(m - m->team->members);
	loop_home(&m->loop, home + conf.member, devices_node(m->devices));
	if (m->devices && devices_give(m->devices, &conf, &m->loop, err) < 0)
		return -1;
	m->exec = exec_new(&conf, err);
	if (!m->exec || watch_fd(m, &m->files, exec_fd(m->exec), err) < 0 ||
	    watch_fd(m, &m->stop, m->stop_fd, err) < 0)
		return -1;
	m->stop.fn = woken;
	exec_stats(m->exec, &m->stats);
	return each_conn(m, take_conn, err);
}

struct team *team_new(const struct exec_conf *conf, int members, struct devices *devices, int home,
                      struct err *err)
{
	struct team *t = err_calloc(1, sizeof *t, "threads", err);
	struct member *m = err_calloc((size_t)members, sizeof *m, "threads", err);
	if (!t || !m) {
		free(t);
		free(m);
		return NULL;
	}
	t->conf = *conf;
	t->ops = &conf->io;
	t->devices = devices;
	t->conf.io = (struct fileio_ops){locked_read, locked_write, t};
	pthread_mutex_init(&t->reading, NULL);
	pthread_mutex_init(&t->writing, NULL);
	t->members = m;
	t->n = members;
	for (int i = 0; i < members; i++) {
		m[i] = (struct member){.team = t, .stop_fd = -1, .loop.epfd = -1};
		m[i].devices = devices ? devices_of(devices, i) : NULL;
		pthread_mutex_init(&m[i].lock, NULL);
	}
	t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->fd < 0)
		err_errno(err, ERR_RESOURCE, "eventfd");
	for (int i = 0; i < members && t->fd >= 0; i++)
		if (member_init(&m[i], home * members, err) < 0)
			break;
		else if (i + 1 == members)
			return t;
	team_free(t);
	return NULL;
}

int team_start(struct team *t, struct err *err)
{
	for (int i = 0; i < t->n; i++) {
		if (pthread_create(&t->members[i].thread, NULL, run, &t->members[i]) != 0)
			return err_set(err, ERR_RESOURCE, "cannot start a lane thread");
		t->members[i].started = true;
	}
	return 0;
}

int team_state(struct team *t, struct err *err)
{
	int done = 0;
	for (int i = 0; i < t->n; i++) {
		struct member *m = &t->members[i];
		pthread_mutex_lock(&m->lock);
		int state = m->state;
		if (state < 0)
			*err = m->err;
		pthread_mutex_unlock(&m->lock);
		if (state < 0)
			return -1;
		done += state;
	}
	return done == t->n;
}

int team_fd(const struct team *t)
{
	return t->fd;
}

void team_stats(struct team *t, struct exec_stats *out)
{
	*out = (struct exec_stats){0};
	for (int i = 0; i < t->n; i++) {
		struct member *m = &t->members[i];
		pthread_mutex_lock(&m->lock);
		exec_stats_add(out, &m->stats);
		memcpy(out->total, m->stats.total, sizeof out->total); /* each knows that of all */
		pthread_mutex_unlock(&m->lock);
	}
}

int team_waits_for(struct team *t, int *peers, int cap)
{
	int n = 0;
	for (int i = 0; i < t->n; i++) {
		struct member *m = &t->members[i];
		pthread_mutex_lock(&m->lock);
		for (int k = 0; k < m->npeers && n < cap; k++) {
			bool seen = false;
			for (int j = 0; j < n; j++)
				seen |= peers[j] == m->peers[k];
			if (!seen)
				peers[n++] = m->peers[k];
		}
		pthread_mutex_unlock(&m->lock);
	}
	return n;
}

void team_waits_for_device(struct team *t, char *text, size_t cap)
{
	*text = '\0';
	for (int i = 0; i < t->n && !*text; i++) {
		struct member *m = &t->members[i];
		pthread_mutex_lock(&m->lock);
		snprintf(text, cap, "%s", m->device);
		pthread_mutex_unlock(&m->lock);
	}
}

void team_times(struct team *t, struct exec_times *sum)
{
	for (int i = 0; i < t->n; i++)
		exec_times(t->members[i].exec, sum);
}

static void member_release(struct member *m)
{
	struct err ignored = {0};
	each_conn(m, leave_conn, &ignored);
	loop_del(&m->loop, &m->stop);
	exec_free(m->exec);
	if (m->devices)
		devices_detach(m->devices);
	loop_release(&m->loop);
	if (m->stop_fd >= 0)
		close(m->stop_fd);
	pthread_mutex_destroy(&m->lock);
}

uint64_t team_stop(struct team *t)
{
	uint64_t least = UINT64_MAX;
	atomic_store(&t->stopping, true);
	for (int i = 0; i < t->n; i++)
		if (t->members[i].started)
			event_signal(t->members[i].stop_fd);
	for (int i = 0; i < t->n; i++) {
		struct member *m = &t->members[i];
		if (m->started)
			pthread_join(m->thread, NULL);
		m->started = false;
		const uint64_t complete = m->exec ? exec_complete(m->exec) : 0;
		least = complete < least ? complete : least;
	}
	return least;
}

void team_free(struct team *t)
{
	if (!t)
		return;
	team_stop(t);
	devices_settle(t->devices);
	for (int i = 0; i < t->n; i++)
		member_release(&t->members[i]);
	if (t->fd >= 0)
		close(t->fd);
	pthread_mutex_destroy(&t->reading);
	pthread_mutex_destroy(&t->writing);
	free(t->members);
	free(t);
}
