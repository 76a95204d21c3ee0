/*
 * A hostile rank. build/fault/hostile_rank is the program with these functions in front of its own.
 *
 * AS=RANK TO=RANK: before it opens its connections, it dials rank TO as rank AS, with the session
 * and the key that it has for rank TO, and says on stderr what came of it.
 *
 * KEYS=wrong: it has other keys than those of its pairs.
 *
 * SCRIBBLE=SEED: when all its connections are ready, it writes random numbers into the words and
 * references of all its memory lanes. Then it does nothing more.
 *
 * ROUND=K:AT:BYTE: in its K-th part of a round (from 0), byte AT (negative: from the end) is BYTE.
 * AT beyond the end: bytes BYTE follow until it has AT bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/job.h"
#include "lib/net/mesh.h"

struct mesh *__real_mesh_open(const struct mesh_conf *, struct err *err);
struct mesh *__wrap_mesh_open(const struct mesh_conf *, struct err *err);
void __real_mesh_settle(struct mesh *);
void __wrap_mesh_settle(struct mesh *);
int __real_job_round(struct job *, const struct buf *part, struct view *answer, struct err *err);
int __wrap_job_round(struct job *, const struct buf *part, struct view *answer, struct err *err);

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
	static const uint8_t wrong[16][TLS_KEY_BYTES];
	const char *as = getenv("AS"), *to = getenv("TO");
	struct mesh_conf c = *conf;
	const int peer = to ? atoi(to) : -1;
	if (getenv("KEYS"))
		c.keys = wrong;
	if (!as || !to)
		return __real_mesh_open(&c, err);
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

/* The words and references are between these bytes of a lane (PROTOCOL.md). */
#define FROM 64
#define TO   (192 + 256 * 16)

static void scribble(uint64_t *words, uint64_t *state)
{
	for (size_t i = FROM / 8; i < TO / 8; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		words[i] = *state ^ *state >> 29;
	}
}

void __wrap_mesh_settle(struct mesh *m)
{
	const char *seed = getenv("SCRIBBLE");
	char line[512];
	uintptr_t base;
	int lanes = 0;
	__real_mesh_settle(m);
	if (!seed)
		return;
	uint64_t state = strtoull(seed, NULL, 10);
	FILE *f = fopen("/proc/self/maps", "re");
	while (f && fgets(line, sizeof line, f))
		if (strstr(line, "collctl lane") && sscanf(line, "%" SCNxPTR, &base) == 1) {
			scribble((uint64_t *)base, &state);
			lanes++;
		}
	if (f)
		fclose(f);
	fprintf(stderr, "scribbled into %d lanes\n", lanes);
	for (;;)
		pause();
}

int __wrap_job_round(struct job *j, const struct buf *part, struct view *answer, struct err *err)
{
	static int round;
	const char *how = getenv("ROUND");
	int k = 0, byte = 0;
	long at = 0;
	if (!how || sscanf(how, "%d:%ld:%i", &k, &at, &byte) != 3 || k != round++)
		return __real_job_round(j, part, answer, err);
	struct buf lie;
	buf_init(&lie, JOB_ROUND_MAX);
	buf_put(&lie, part->data, part->len);
	if (at < 0)
		at += (long)lie.len;
	if (at >= 0 && (size_t)at < lie.len)
		lie.data[at] = (uint8_t)byte;
	while (at > 0 && lie.len < (size_t)at)
		buf_put_u8(&lie, (uint8_t)byte);
	int ret = __real_job_round(j, &lie, answer, err);
	buf_release(&lie);
	return ret;
}
