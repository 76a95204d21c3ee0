#include "lib/exec/drive.h"

#include <stdlib.h>
#include <unistd.h>

#define BUFFER_MAX (256u << 10) /* bytes of a connection's buffer */
#define BUFFER_MIN (48u << 10)
#define YIELDS     20 /* before sleeping, while data moves */

static struct conn *conn_of(void *ctx, int peer, bool out, int stream)
{
	return mesh_conn(ctx, peer, out, stream);
}

static size_t buffer_size(const struct drive *d, int nconns)
{
	uint64_t want = 2 * d->lane_bytes + 4096, most = d->memory;
	if (nconns)
		most /= (uint64_t)nconns * 2; /* ours, and OpenSSL's for reading ahead */
	if (want > most)
		want = most;
	if (want > BUFFER_MAX)
		want = BUFFER_MAX;
	return want < BUFFER_MIN ? BUFFER_MIN : (size_t)want;
}

static int count_peers(const int *out, int nout, const int *in, int nin)
{
	int n = 0;
	for (int i = 0, k = 0; i < nout || k < nin; n++) {
		int first = i == nout || (k < nin && in[k] < out[i]) ? in[k] : out[i];
		i += i < nout && out[i] == first;
		k += k < nin && in[k] == first;
	}
	return n;
}

int drive_connect(struct drive *d, struct err *err)
{
	const struct exec_conf *conf = &d->conf;
	size_t size = (size_t)conf->args.size;
	int *out = calloc(size, sizeof *out), *in = calloc(size, sizeof *in), nout = 0, nin = 0;
	int ret = -1;
	if (!out || !in)
		err_nomem(err, "the edges", size * sizeof *out);
	else
		ret = exec_edges(conf->algorithm, &conf->args, out, &nout, in, &nin, err);
	if (ret == 0 && nout + nin > 0) {
		d->npeers = count_peers(out, nout, in, nin);
		d->mesh = job_connect(d->job, out, nout, in, nin, conf->streams,
		                      buffer_size(d, (nout + nin) * conf->streams), err);
		ret = d->mesh ? 0 : -1;
	}
	free(out);
	free(in);
	return ret;
}

static int waits_for(void *ctx, int *peers, int cap)
{
	return exec_waits_for(ctx, peers, cap);
}

static void files_moved(void *ctx, uint32_t events)
{
	const struct loop_watch *w = ctx;
	uint64_t n;
	(void)events;
	if (read(w->fd, &n, sizeof n) < 0)
		return; /* it has been read before */
}

static void woken(void *ctx) /* an event has ended the loop's wait: that is all there is to do */
{
	(void)ctx;
}

static int advance(struct drive *d, struct err *err)
{
	for (;;) {
		int ret = exec_advance(d->exec, err);
		exec_stats(d->exec, &d->stats);
		if (ret < 0 || ret == 1)
			return ret < 0 ? -1 : 0;
		job_moved(d->job, d->stats.bytes_moved);
		if ((ret == EXEC_AGAIN ? job_poll : job_turn)(d->job, err) < 0)
			return -1;
	}
}

int drive_run(struct drive *d, struct err *err)
{
	struct loop *loop = job_loop(d->job);
	d->conf.conn = conn_of;
	d->conf.conn_ctx = d->mesh;
	d->exec = exec_new(&d->conf, err);
	if (!d->exec)
		return -1;
	struct loop_watch files = {.fd = exec_fd(d->exec), .fn = files_moved, .ctx = &files};
	if (files.fd >= 0 && loop_add(loop, &files, EPOLLIN, err) < 0)
		return -1;
	if (d->mesh)
		mesh_attach(d->mesh, woken, NULL);
	job_waits(d->job, waits_for, d->exec);
	job_phase(d->job, PHASE_RUN);
	loop->yields = YIELDS;
	int ret = advance(d, err);
	loop->yields = 0;
	job_waits(d->job, NULL, NULL);
	loop_del(loop, &files);
	return ret;
}
