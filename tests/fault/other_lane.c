/*
 * A rank that speaks as another one. build/fault/other_lane is the program with this mesh_open in
 * front of its own: before the rank opens its connections, it dials rank $TO as rank $AS, with the
 * session and the key that it has for rank $TO, and says on stderr what came of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/net/mesh.h"

struct mesh *__real_mesh_open(const struct mesh_conf *, struct err *err);
struct mesh *__wrap_mesh_open(const struct mesh_conf *, struct err *err);

static void nothing(void *ctx)
{
	(void)ctx;
}

/* Until it is admitted, or three connections have failed. */
static void speak(struct mesh *m, struct loop *loop, int to)
{
	struct err err = {0}, why = {0};
	int state;
	while ((state = mesh_state(m, &err)) == 0 && !strstr(why.text, "(3 connections failed)")) {
		if (loop_turn(loop, clock_ns() + NS_PER_SEC, &err) < 0)
			break;
		why = (struct err){0};
		(void)mesh_missing(m, &why);
	}
	if (mesh_no_memory(m, to))
		fprintf(stderr, "by memory: %s\n", mesh_no_memory(m, to));
	fprintf(stderr, "%s\n", state > 0 ? "admitted" : state < 0 ? err.text : why.text);
}

struct mesh *__wrap_mesh_open(const struct mesh_conf *conf, struct err *err)
{
	const char *as = getenv("AS"), *to = getenv("TO");
	struct mesh_conf c = *conf;
	const int peer = to ? atoi(to) : -1;
	if (!as || !to)
		return __real_mesh_open(conf, err);
	c.rank = atoi(as);
	c.out = &peer;
	c.nout = 1;
	c.nin = 0;
	c.streams = 1;
	c.listen_fd = c.lanes_fd = -1;
	c.on_ready = nothing;
	c.on_edge = NULL;
	struct mesh *m = __real_mesh_open(&c, err);
	if (!m)
		return NULL;
	speak(m, conf->loop, peer);
	mesh_close(m);
	return __real_mesh_open(conf, err);
}
