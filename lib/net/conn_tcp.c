/*
 * Plain TCP in frames (--insecure): {u32 length, u32 sequence, u64 XXH3-64 of the payload, u32 low
 * half of the XXH3-64 of the header before it}, then the payload. A frame of length END announces
 * the end; one of length ALERT says that its sender has received corrupt bytes. The header has its
 * own checksum, so that a corrupt length is not waited for. A corrupt, repeated, missing or
 * oversized frame is ERR_INTEGRITY; nothing is allocated from its length. Bytes that arrived before
 * a connection was lost are read first: they may contain the reason.
 *
 * Writing is zero-copy: the header and the caller's bytes go out in one sendmsg. Reading goes
 * directly into the caller's memory, except for the head of a frame, which arrives together with
 * the header in a small stage, so that a small message costs one system call.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "lib/base/buf.h"
#include "lib/base/xxh3.h"
#include "lib/net/conn.h"

#define SUMMED 16 /* bytes of the header that its checksum covers */
#define HEADER (SUMMED + 4)
#define STAGE  (4096 + 4 * HEADER) /* more than a frame of 4 KiB: its read is a short one */
#define END    UINT32_MAX
#define ALERT  (UINT32_MAX - 1) /* the sender of this frame received corrupt bytes */

struct conn_tcp {
	struct conn conn;
	bool connecting;
	/* writing */
	uint32_t out_seq;
	uint8_t out_header[HEADER];
	size_t out_header_left;
	size_t out_left; /* payload bytes of the current frame that the kernel has not taken */
	bool out_ending;
	/* reading */
	uint32_t in_seq;
	size_t in_left; /* payload bytes of the current frame still to come */
	uint64_t in_sum;
	bool in_frame, in_ended;
	struct err in_lost; /* why nothing more is read; reported after all bytes before it */
	XXH3_state_t *in_hash;
	uint8_t stage[STAGE];
	size_t stage_pos, stage_len;
};

static int tcp_handshake(struct conn *conn, struct err *err)
{
	struct conn_tcp *c = (struct conn_tcp *)conn;
	if (!c->connecting)
		return 1;
	int connected = conn_sock_connected(conn, err);
	if (connected <= 0)
		return connected;
	c->connecting = false;
	return 1;
}

static uint32_t header_sum(const uint8_t h[SUMMED])
{
	return (uint32_t)XXH3_64bits(h, SUMMED);
}

static void begin_frame(struct conn_tcp *c, uint32_t length, uint64_t sum)
{
	put_u32(c->out_header, length);
	put_u32(c->out_header + 4, c->out_seq++);
	put_u64(c->out_header + 8, sum);
	put_u32(c->out_header + SUMMED, header_sum(c->out_header));
	c->out_header_left = HEADER;
}

/* Send the rest of the header and @n bytes of payload. Returns payload bytes, or -1. */
static ssize_t send_frame(struct conn_tcp *c, const void *payload, size_t n, struct err *err)
{
	struct iovec iov[2] = {
	        {c->out_header + HEADER - c->out_header_left, c->out_header_left},
	        {(void *)payload, n},
	};
	int first = c->out_header_left ? 0 : 1;
	ssize_t put = conn_sock_writev(&c->conn, iov + first, (n ? 2 : 1) - first, err);
	if (put <= 0)
		return put;
	size_t header = (size_t)put < c->out_header_left ? (size_t)put : c->out_header_left;
	c->out_header_left -= header;
	return put - (ssize_t)header;
}

static ssize_t tcp_write(struct conn *conn, const void *buf, size_t n, struct err *err)
{
	struct conn_tcp *c = (struct conn_tcp *)conn;
	size_t done = 0;
	while (done < n && conn->writable) {
		const uint8_t *p = (const uint8_t *)buf + done;
		if (!c->out_left) {
			size_t len = n - done < CONN_FRAME_MAX ? n - done : CONN_FRAME_MAX;
			begin_frame(c, (uint32_t)len, XXH3_64bits(p, len));
			c->out_left = len;
		}
		size_t len = n - done < c->out_left ? n - done : c->out_left;
		ssize_t put = send_frame(c, p, len, err);
		if (put < 0)
			return -1;
		c->out_left -= (size_t)put;
		done += (size_t)put;
	}
	return (ssize_t)done;
}

static int tcp_flush(struct conn *conn, struct err *err)
{
	struct conn_tcp *c = (struct conn_tcp *)conn;
	if (c->out_left == 0 && c->out_header_left && send_frame(c, NULL, 0, err) < 0)
		return -1;
	return c->out_header_left == 0 && c->out_left == 0;
}

static int tcp_end(struct conn *conn, struct err *err)
{
	struct conn_tcp *c = (struct conn_tcp *)conn;
	if (!c->out_ending) {
		int flushed = tcp_flush(conn, err);
		if (flushed <= 0)
			return flushed;
		begin_frame(c, END, 0);
		c->out_ending = true;
	}
	int flushed = tcp_flush(conn, err);
	if (flushed == 1)
		conn_sock_end(conn);
	return flushed;
}

/* A gate that expects TLS answers a plain peer with the alert "protocol version", which cannot be
 * the beginning of a first frame. */
static int check_alert(const struct conn_tcp *c, struct err *err)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70};
	if (c->in_seq || c->in_frame || c->stage_len - c->stage_pos < sizeof alert ||
	    memcmp(c->stage + c->stage_pos, alert, sizeof alert) != 0)
		return 0;
	return err_set(err, ERR_AUTH,
	               "the peer uses TLS: this rank has --insecure, the peer does not");
}

static int parse_header(struct conn_tcp *c, const uint8_t *h, struct err *err)
{
	uint32_t length = get_u32(h), seq = get_u32(h + 4);
	if (get_u32(h + SUMMED) != header_sum(h))
		return err_set(err, ERR_INTEGRITY, "the header of frame %u is corrupt", c->in_seq);
	if (seq != c->in_seq)
		return err_set(err, ERR_INTEGRITY, "received frame %u, expected frame %u", seq,
		               c->in_seq);
	if (length == END) {
		c->in_ended = true;
		return 0;
	}
	if (length == ALERT) {
		c->conn.alerted = true;
		return err_set(&c->in_lost, ERR_INTEGRITY, "the peer received corrupt bytes");
	}
	if (length == 0 || length > CONN_FRAME_MAX)
		return err_set(err, ERR_INTEGRITY, "a frame of %u bytes (at most %u are allowed)",
		               length, CONN_FRAME_MAX);
	c->in_frame = true;
	c->in_left = length;
	c->in_sum = get_u64(h + 8);
	XXH3_64bits_reset(c->in_hash);
	return 0;
}

/* @n payload bytes have arrived at @p: add them to the checksum, and check it at the end of the
 * frame. */
static int took_payload(struct conn_tcp *c, const void *p, size_t n, struct err *err)
{
	XXH3_64bits_update(c->in_hash, p, n);
	c->in_left -= n;
	if (c->in_left)
		return 0;
	c->in_frame = false;
	if (XXH3_64bits_digest(c->in_hash) != c->in_sum)
		return err_set(err, ERR_INTEGRITY, "the checksum of frame %u is wrong", c->in_seq);
	c->in_seq++;
	return 0;
}

static ssize_t read_stage(struct conn_tcp *c, uint8_t *buf, size_t n, struct err *err)
{
	size_t len = c->stage_len - c->stage_pos;
	if (len > c->in_left)
		len = c->in_left;
	if (len > n)
		len = n;
	memcpy(buf, c->stage + c->stage_pos, len);
	c->stage_pos += len;
	return took_payload(c, buf, len, err) < 0 ? -1 : (ssize_t)len;
}

/* Read more bytes into the stage. > 0: some have arrived. */
static ssize_t fill_stage(struct conn_tcp *c, struct err *err)
{
	memmove(c->stage, c->stage + c->stage_pos, c->stage_len - c->stage_pos);
	c->stage_len -= c->stage_pos;
	c->stage_pos = 0;
	struct iovec iov = {c->stage + c->stage_len, STAGE - c->stage_len};
	ssize_t got = conn_sock_readv(&c->conn, &iov, 1, &c->in_lost);
	if (got > 0)
		c->stage_len += (size_t)got;
	return check_alert(c, err) < 0 ? -1 : got;
}

/* Read the rest of a frame that is too large for the stage directly into the caller's memory,
 * together with the next header. */
static ssize_t read_direct(struct conn_tcp *c, uint8_t *buf, size_t n, struct err *err)
{
	size_t len = n < c->in_left ? n : c->in_left;
	struct iovec iov[2] = {{buf, len}, {c->stage, HEADER}};
	c->stage_pos = c->stage_len = 0;
	ssize_t got = conn_sock_readv(&c->conn, iov, len == c->in_left ? 2 : 1, &c->in_lost);
	if (got <= 0)
		return got;
	if ((size_t)got > len) {
		c->stage_len = (size_t)got - len;
		got = (ssize_t)len;
	}
	return took_payload(c, buf, (size_t)got, err) < 0 ? -1 : got;
}

static ssize_t cut_short(struct conn_tcp *c, size_t done, ssize_t got, struct err *err)
{
	if (got == CONN_END) {
		c->conn.cut = true;
		err_set(&c->in_lost, ERR_INTEGRITY, "the stream was cut in or before frame %u",
		        c->in_seq);
	}
	if (got == 0 || (done && c->in_lost.code))
		return (ssize_t)done;
	return err_set(err, c->in_lost.code, "%s", c->in_lost.text);
}

/* Tell the peer that its data arrived corrupt, unless a frame is being sent. */
static void send_alert(struct conn_tcp *c)
{
	struct err ignored = {0};
	if (c->conn.alerted || c->out_left || c->out_header_left || c->out_ending)
		return;
	begin_frame(c, ALERT, 0);
	c->out_ending = true;
	(void)send_frame(c, NULL, 0, &ignored);
	conn_sock_drain(&c->conn);
}

static ssize_t read_frames(struct conn_tcp *c, void *buf, size_t n, struct err *err)
{
	size_t done = 0;
	if (c->in_lost.code)
		return cut_short(c, 0, -1, err);
	while (done < n) {
		ssize_t got;
		if (c->in_ended)
			return done ? (ssize_t)done : CONN_END;
		if (c->in_frame) {
			uint8_t *p = (uint8_t *)buf + done;
			if (c->stage_pos < c->stage_len)
				got = read_stage(c, p, n - done, err);
			else
				got = read_direct(c, p, n - done, err);
			if (got <= 0)
				return cut_short(c, done, got, err);
			done += (size_t)got;
		} else if (c->stage_len - c->stage_pos >= HEADER) {
			if (parse_header(c, c->stage + c->stage_pos, err) < 0)
				return c->in_lost.code ? cut_short(c, done, -1, err) : -1;
			c->stage_pos += HEADER;
		} else {
			got = fill_stage(c, err);
			if (got <= 0)
				return cut_short(c, done, got, err);
		}
	}
	return (ssize_t)done;
}

static ssize_t tcp_read(struct conn *conn, void *buf, size_t n, struct err *err)
{
	struct conn_tcp *c = (struct conn_tcp *)conn;
	struct err bad = {0};
	ssize_t got = read_frames(c, buf, n, &bad);
	if (got == -1 && !c->in_lost.code) {
		c->in_lost = bad;
		send_alert(c);
	}
	return got == -1 ? err_set(err, bad.code, "%s", bad.text) : got;
}

static void tcp_free(struct conn *conn)
{
	XXH3_freeState(((struct conn_tcp *)conn)->in_hash);
	free(conn);
}

static const struct conn_ops tcp_ops = {
        .name = "tcp",
        .sums = true,
        .handshake = tcp_handshake,
        .read = tcp_read,
        .write = tcp_write,
        .flush = tcp_flush,
        .end = tcp_end,
        .free = tcp_free,
};

struct conn *conn_tcp_new(int fd, struct err *err)
{
	struct conn_tcp *c = calloc(1, sizeof *c);
	if (c)
		c->in_hash = XXH3_createState();
	if (!c || !c->in_hash) {
		err_nomem(err, "a connection", sizeof *c);
		free(c);
		return NULL;
	}
	c->conn.ops = &tcp_ops;
	c->conn.fd = fd;
	c->connecting = true;
	return &c->conn;
}
