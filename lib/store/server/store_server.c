/*
 * HTTP around kv.h. Everything runs on the caller's thread: libmicrohttpd runs within
 * store_server_run and calls on_request. A blocking query is a suspended connection and an entry in
 * the list of waiters. A change of its key, its time limit, or the end of the server resumes it,
 * and it is answered with the current value.
 *
 * libmicrohttpd's own time-out counts from the last byte, so a client that sends a byte now and
 * then could keep a connection for ever. Therefore each connection has a deadline for its whole
 * request and one for its whole answer; the server enforces them by shutting down the socket.
 */
#include "lib/store/server/store_server_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/library.h"
#include "lib/base/private.h"

#define CLIENT_TIME (10 * NS_PER_SEC) /* to send a request; to take its answer */
#define DRAIN_TIME  (250 * NS_PER_MS) /* at the end, for the answers that are being sent */
#define PEM_MAX     ((size_t)1 << 20)
#define POOL_BYTES  ((size_t)16 << 10) /* of a connection, for its request's head */
#define BACKLOG     512
#define LARGE_MAX   ((size_t)32 << 20) /* bytes of all bodies and answers in progress, ... */
#define SMALL_MAX   ((size_t)4 << 10)  /* ... except those of at most this size */

struct mhd_functions mhd;

#define X(name) {#name, &mhd.name, LIBRARY_LINKED(MHD_##name)},
LIBRARY(libmicrohttpd, "serve", "to serve a store", "libmicrohttpd12", "MHD_", MHD_FUNCTIONS(X),
        NULL, "libmicrohttpd.so.12");
#undef X

const char *store_server_library(void)
{
	return library_open(&libmicrohttpd, NULL) < 0 ? NULL : mhd.get_version();
}

/* ---- waiters ---- */

static void unlink_waiter(struct request *r)
{
	*r->prev = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->prev = NULL;
	r->server->nwaiters--;
}

static void resume(struct request *r)
{
	unlink_waiter(r);
	r->client->deadline = clock_ns() + r->server->client_time;
	mhd.resume_connection(r->conn);
}

enum MHD_Result store_suspend(struct request *r, const char *key, int64_t until)
{
	struct store_server *s = r->server;

	r->key = strdup(key);
	if (!r->key)
		return MHD_NO;
	r->until = until;
	r->has_waited = true;
	r->next = s->waiters;
	r->prev = &s->waiters;
	if (r->next)
		r->next->prev = &r->next;
	s->waiters = r;
	s->nwaiters++;
	r->client->deadline = KV_NEVER;
	mhd.suspend_connection(r->conn);
	return MHD_YES;
}

/* A callback of kv: resume those who wait for @key. */
static void on_change(void *arg, const char *key)
{
	struct store_server *s = arg;
	struct request *next;

	for (struct request *r = s->waiters; r; r = next) {
		next = r->next;
		if (strcmp(key, r->key) == 0)
			resume(r);
	}
}

static int64_t resume_waiters(struct store_server *s, int64_t now)
{
	struct request *next;
	int64_t first = KV_NEVER;

	for (struct request *r = s->waiters; r; r = next) {
		next = r->next;
		if (r->until <= now)
			resume(r);
		else if (r->until < first)
			first = r->until;
	}
	return first;
}

/* ---- requests ---- */

static enum MHD_Result begin(struct store_server *s, struct MHD_Connection *conn, void **con_cls)
{
	const union MHD_ConnectionInfo *info =
	        mhd.get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct request *r = calloc(1, sizeof *r);

	if (!r || !info || !info->socket_context) {
		free(r);
		return MHD_NO;
	}
	*r = (struct request){.server = s, .conn = conn, .client = info->socket_context};
	s->nrequests++;
	*con_cls = r;
	return store_api_begin(r);
}

bool store_reserve(struct request *r, size_t len)
{
	struct store_server *s = r->server;

	if (len <= SMALL_MAX || len <= r->reserved)
		return true;
	if (s->large_bytes + len - r->reserved > LARGE_MAX)
		return false;
	s->large_bytes += len - r->reserved;
	r->reserved = len;
	return true;
}

static enum MHD_Result take_body(struct request *r, const char *data, size_t *len)
{
	/* Only a chunked body can get here without an announced size. */
	if (*len > KV_VALUE_BYTES - r->len || !store_reserve(r, r->len + *len))
		return MHD_NO;
	char *more = realloc(r->body, r->len + *len);
	if (!more)
		return MHD_NO;
	memcpy(more + r->len, data, *len);
	r->body = more;
	r->len += *len;
	*len = 0;
	return MHD_YES;
}

static enum MHD_Result on_request(void *arg_, struct MHD_Connection *conn, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **con_cls)
{
	struct request *r = *con_cls;

	(void)version;
	if (!r)
		return begin(arg_, conn, con_cls);
	if (*upload_len)
		return take_body(r, upload, upload_len);
	/* The request is complete: from now on its time is the server's, until the answer. */
	r->client->deadline = clock_ns() + r->server->client_time;
	return store_api_answer(r, method, url);
}

static void on_completed(void *arg_, struct MHD_Connection *conn, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
	struct store_server *s = arg_;
	struct request *r = *con_cls;

	(void)conn, (void)code;
	if (!r)
		return;
	if (r->prev)
		unlink_waiter(r);
	if (r->deleted)
		s->withdrawn = true;
	r->client->deadline = clock_ns() + r->server->client_time; /* for the next request */
	s->nrequests--;
	s->large_bytes -= r->reserved;
	free(r->key);
	free(r->body);
	free(r);
	*con_cls = NULL;
}

/* ---- connections ---- */

static void client_started(struct store_server *s, struct MHD_Connection *conn, void **context)
{
	const union MHD_ConnectionInfo *info =
	        mhd.get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *c = info ? calloc(1, sizeof *c) : NULL;

	*context = c;
	if (!c) /* its requests are refused */
		return;
	c->fd = info->connect_fd;
	c->deadline = clock_ns() + s->client_time;
	c->next = s->clients;
	c->prev = &s->clients;
	if (c->next)
		c->next->prev = &c->next;
	s->clients = c;
}

static void client_closed(struct client *c)
{
	if (!c)
		return;
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c);
}

static void on_connection(void *arg_, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		client_started(arg_, conn, context);
		return;
	}
	client_closed(*context);
	*context = NULL;
}

/* Shut down the sockets whose time is over; libmicrohttpd then finds them closed. */
static int64_t drop_slow_clients(struct store_server *s, int64_t now)
{
	int64_t first = KV_NEVER;

	for (struct client *c = s->clients; c; c = c->next) {
		if (c->deadline <= now) {
			shutdown(c->fd, SHUT_RDWR);
			c->deadline = KV_NEVER;
		} else if (c->deadline < first) {
			first = c->deadline;
		}
	}
	return first;
}

/* ---- life ---- */

/* TLS 1.2 and 1.3, with authenticated encryption and forward secrecy alone. GnuTLS's notation. */
#define PRIORITIES                                                                          \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:" \
	"+CHACHA20-POLY1305:-MAC-ALL:+AEAD:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"

static ssize_t read_public(const char *path, char *text, size_t cap, struct err *err)
{
	int fd = io_retry(open(path, O_RDONLY | O_CLOEXEC));
	ssize_t n = fd >= 0 ? read_full(fd, text, cap) : -1;

	if (n < 0)
		err_errno(err, ERR_AUTH, "%s", path);
	if (fd >= 0)
		close(fd);
	return n;
}

/* libmicrohttpd does not say which file is wrong. */
static int check_pem(const char *path, const char *text, bool key, struct err *err)
{
	if (strstr(text, key ? "PRIVATE KEY-----" : "CERTIFICATE-----"))
		return 0;
	return err_set(err, ERR_AUTH, "%s: no %s in it (PEM)", path,
	               key ? "private key" : "certificate");
}

/* A certificate, or with @key a private key, whose file must be private. */
static char *read_pem(const char *path, bool key, struct err *err)
{
	char *text = err_malloc(PEM_MAX, path, err);

	if (!text)
		return NULL;
	ssize_t n = key ? private_file(path, "a key cannot come from a pipe", text, PEM_MAX, err)
	                : read_public(path, text, PEM_MAX, err);
	if (n >= 0 && (size_t)n < PEM_MAX) {
		text[n] = '\0';
		if (check_pem(path, text, key, err) == 0)
			return text;
	} else if (n >= 0) {
		err_set(err, ERR_AUTH, "%s: too long for a certificate or key", path);
	}
	wipe(text, PEM_MAX);
	free(text);
	return NULL;
}

static int load_conf(struct store_server *s, const struct store_server_conf *conf, struct err *err)
{
	if (conf->token && *conf->token && !(s->token = err_strdup(conf->token, "the token", err)))
		return -1;
	if (!conf->tls_cert != !conf->tls_key)
		return err_set(err, ERR_USAGE, "--tls-cert and --tls-key must be given together");
	if (!conf->tls_cert)
		return 0;
	s->cert = read_pem(conf->tls_cert, false, err);
	s->cert_key = s->cert ? read_pem(conf->tls_key, true, err) : NULL;
	return s->cert_key ? 0 : -1;
}

static int open_listener(struct store_server *s, const char *text, struct err *err)
{
	char host[256];
	int port;

	if (addr_split(text ? text : "127.0.0.1:0", host, sizeof host, &port, err) < 0)
		return -1;
	if (port < 0)
		port = STORE_SERVER_PORT;
	if (addr_resolve(&s->addr, host, port, true, err) < 0)
		return -1;
	int fd = addr_listen(&s->addr, 0, 0, BACKLOG, err);
	if (fd >= 0)
		addr_text(&s->addr, true, s->address);
	return fd;
}

/* Descriptors for all waiters and some more, but never the process's last ones. */
static unsigned connection_limit(void)
{
	struct rlimit files;
	rlim_t limit = WAITERS_MAX + 256;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < limit + 64)
		limit = files.rlim_cur > 80 ? files.rlim_cur - 64 : 16;
	return (unsigned)limit;
}

static int start_daemon(struct store_server *s, int listen_fd, struct err *err)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (s->cert ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
	        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
	        {MHD_OPTION_HTTPS_MEM_KEY, 0, s->cert_key},
	        {MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)(uintptr_t)PRIORITIES},
	        {MHD_OPTION_END, 0, NULL},
	};

	s->daemon = mhd.start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET,
	                             listen_fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES,
	                             MHD_OPTION_CONNECTION_LIMIT, connection_limit(),
	                             MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
	                             MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
	                             MHD_OPTION_ARRAY, s->cert ? tls : tls + 3, MHD_OPTION_END);
	if (!s->daemon && s->cert)
		return err_set(err, ERR_AUTH,
		               "the store cannot serve HTTPS: a bad certificate or key, or a "
		               "libmicrohttpd without TLS");
	if (!s->daemon)
		return err_set(err, ERR_RESOURCE, "libmicrohttpd does not start");
	s->epoll_fd = mhd.get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	return 0;
}

/* libmicrohttpd versions differ in whether a daemon that fails to start closes the socket. */
static void close_if_same(int fd, ino_t inode)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode)
		close(fd);
}

struct store_server *store_server_start(const struct store_server_conf *conf, struct err *err)
{
	struct store_server *s = err_calloc(1, sizeof *s, "the store", err);
	struct stat st = {0};
	int fd = -1;

	if (!s)
		return NULL;
	s->client_time = conf->client_ns ? conf->client_ns : CLIENT_TIME;
	kv_init(&s->kv, conf->ttl_ns, on_change, s);
	if (library_open(&libmicrohttpd, err) == 0 && load_conf(s, conf, err) == 0)
		fd = open_listener(s, conf->listen, err);
	if (fd >= 0 && fstat(fd, &st) == 0 && start_daemon(s, fd, err) == 0)
		return s;
	if (fd >= 0)
		close_if_same(fd, st.st_ino);
	store_server_stop(s);
	return NULL;
}

int store_server_port(const struct store_server *s)
{
	return addr_port(&s->addr);
}

const char *store_server_address(const struct store_server *s)
{
	return s->address;
}

bool store_server_is_loopback(const struct store_server *s)
{
	return strncmp(s->address, "127.", 4) == 0 || strncmp(s->address, "[::1]", 5) == 0;
}

int store_server_fd(const struct store_server *s)
{
	return s->epoll_fd;
}

bool store_server_withdrawn(const struct store_server *s)
{
	return s->withdrawn;
}

int store_server_put(struct store_server *s, const char *key, const void *data, size_t len,
                     struct err *err)
{
	if (kv_put(&s->kv, key, data, len, NULL, clock_ns()) == KV_TRUE)
		return 0;
	return err_set(err, ERR_RESOURCE, "the store has no room for %s", key);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Do what is due, and return when the next timer is due. */
static int64_t tick(struct store_server *s)
{
	int64_t now = clock_ns();
	int64_t next = kv_expire(&s->kv, now);

	next = earlier(next, resume_waiters(s, now));
	return earlier(next, drop_slow_clients(s, now));
}

int store_server_run(struct store_server *s)
{
	MHD_UNSIGNED_LONG_LONG own = 0;
	bool has_own = true;

	/* Bounded, so that a flood of requests does not keep the caller from its signals. */
	for (int round = 0; round < 16 && has_own && own == 0; round++) {
		tick(s);
		mhd.run(s->daemon);
		has_own = mhd.get_timeout(s->daemon, &own) == MHD_YES;
	}
	/* Only now are all waiters of this run known. */
	int64_t next = tick(s);
	if (has_own)
		next = earlier(next, clock_ns() + (int64_t)(own < 1000 ? own : 1000) * NS_PER_MS);
	return next == KV_NEVER ? -1 : clock_ms_until(next);
}

/* Answer all waiters, and send the rest of all answers. */
static void drain(struct store_server *s)
{
	int64_t deadline = clock_ns() + DRAIN_TIME;

	s->stopping = true;
	while (s->waiters)
		resume(s->waiters);
	do {
		int ms = store_server_run(s);
		struct pollfd p = {.fd = s->epoll_fd, .events = POLLIN};
		if (s->nrequests && ms)
			poll(&p, 1, 10);
	} while (s->nrequests && clock_ns() < deadline);
}

void store_server_stop(struct store_server *s)
{
	if (!s)
		return;
	if (s->daemon) {
		drain(s);
		mhd.stop_daemon(s->daemon);
	}
	kv_release(&s->kv);
	if (s->cert_key)
		OPENSSL_cleanse(s->cert_key, strlen(s->cert_key));
	wipe_free(s->cert_key);
	free(s->cert);
	wipe_free(s->token);
	free(s);
}
