/*
 * A toy: TCP without frames, all bits turned over. Whatever is not encrypted takes it.
 */
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/net/transport.h"

extern const struct transport transport_mirror;

#define PIECE 4096

static int handshake(struct conn *c, struct err *err)
{
	return conn_sock_connected(c, err);
}

static void turn_over(uint8_t *to, const uint8_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)~from[i];
}

static ssize_t read_(struct conn *c, void *buf, size_t n, struct err *err)
{
	struct iovec iov = {buf, n};
	ssize_t got = conn_sock_readv(c, &iov, 1, err);
	if (got > 0)
		turn_over(buf, buf, (size_t)got);
	return got;
}

static ssize_t write_(struct conn *c, const void *buf, size_t n, struct err *err)
{
	uint8_t piece[PIECE];
	struct iovec iov = {piece, n < PIECE ? n : PIECE};
	turn_over(piece, buf, iov.iov_len);
	return conn_sock_writev(c, &iov, 1, err);
}

static int flush(struct conn *c, struct err *err)
{
	(void)c, (void)err;
	return 1;
}

static int end(struct conn *c, struct err *err)
{
	(void)err;
	conn_sock_end(c);
	return 1;
}

static void free_(struct conn *c)
{
	free(c);
}

static const struct conn_ops mirror_ops = {
        .name = "mirror",
        .handshake = handshake,
        .read = read_,
        .write = write_,
        .flush = flush,
        .end = end,
        .free = free_,
};

static bool usable(const struct transport_edge *e)
{
	return !e->tls;
}

static struct conn *take(const struct transport_edge *e, int fd, struct err *err)
{
	struct conn *c = calloc(1, sizeof *c);
	(void)e;
	if (!c)
		err_nomem(err, "a connection", sizeof *c);
	else
		*c = (struct conn){.ops = &mirror_ops, .fd = fd};
	return c;
}

static struct conn *dial(const struct transport_edge *e, struct err *err)
{
	int fd = conn_sock_dial(e->to, e->congestion, err);
	struct conn *c = fd < 0 ? NULL : take(e, fd, err);
	if (!c && fd >= 0)
		close(fd);
	return c;
}

static const char *refuse(uint8_t first)
{
	return first == TLS_HANDSHAKE ? "one with TLS came" : NULL;
}

const struct transport transport_mirror = {
        .usable = usable,
        .dial = dial,
        .accept = take,
        .refuse = refuse,
};
