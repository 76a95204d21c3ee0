/*
 * Reads and writes the tuning file. See tuning.h.
 */
#include "algorithms/table.h"
#include "lib/price/tuning.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/limits.h"
#include "lib/data/files/input.h"
#include "lib/data/files/outfile.h"

#define VERSION 1

#define RATE_MAX 1e15 /* keeps prices finite */

static const struct {
	const char *name;
	size_t offset;
} rates[] = {
        {"latency", offsetof(struct price_model, latency)},
        {"message", offsetof(struct price_model, message)},
        {"turn", offsetof(struct price_model, turn)},
        {"egress", offsetof(struct price_model, egress)},
        {"ingress", offsetof(struct price_model, ingress)},
        {"copy", offsetof(struct price_model, copy)},
        {"tls", offsetof(struct price_model, tls)},
        {"reduce", offsetof(struct price_model, reduce)},
        {"file", offsetof(struct price_model, file)},
        {"grain", offsetof(struct price_model, grain)},
        {"device_start", offsetof(struct price_model, device_start)},
        {"device_copy", offsetof(struct price_model, device_copy)},
        {"device_fold", offsetof(struct price_model, device_fold)},
};
#define NRATES (sizeof rates / sizeof rates[0])

static double *rate_of(struct price_model *m, size_t i)
{
	return (double *)((char *)m + rates[i].offset);
}

void tuning_init(struct select_tuning *t)
{
	*t = (struct select_tuning){.rates = price_default,
	                            .memory = price_in_memory(&price_default, 1, 1)};
	t->memory.lends = false;
}

void tuning_release(struct select_tuning *t)
{
	free(t->measured);
	tuning_clear_hosts(t);
	tuning_init(t);
}

void tuning_clear_hosts(struct select_tuning *t)
{
	free(t->hosts);
	free(t->trips);
	t->hosts = NULL;
	t->trips = NULL;
	t->nhosts = 0;
}

/* ---- hosts ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct tuned_host *)a)->name, ((const struct tuned_host *)b)->name);
}

static const struct tuned_host *find_host(const struct select_tuning *t, const char *name)
{
	struct tuned_host like = {0};

	snprintf(like.name, sizeof like.name, "%s", name);
	return t->nhosts ? bsearch(&like, t->hosts, t->nhosts, sizeof like, by_name) : NULL;
}

static double *trip_of(const struct select_tuning *t, const struct tuned_host *a,
                       const struct tuned_host *b)
{
	return &t->trips[(size_t)(a - t->hosts) * t->nhosts + (size_t)(b - t->hosts)];
}

int tuning_add_host(struct select_tuning *t, const char *name, struct price_port port,
                    struct err *err)
{
	struct tuned_host *grown = err_grow(t->hosts, t->nhosts, sizeof *grown, "the tuning", err);

	if (!grown)
		return -1;
	t->hosts = grown;
	t->hosts[t->nhosts] = (struct tuned_host){.port = port};
	snprintf(t->hosts[t->nhosts++].name, HOST_NAME, "%s", name);
	return 0;
}

int tuning_settle_hosts(struct select_tuning *t, struct err *err)
{
	size_t n = 0;

	if (!t->nhosts)
		return 0;
	qsort(t->hosts, t->nhosts, sizeof *t->hosts, by_name);
	for (size_t i = 1; i < t->nhosts; i++) {
		struct price_port *p = &t->hosts[n].port;
		if (by_name(&t->hosts[n], &t->hosts[i]) != 0) {
			t->hosts[++n] = t->hosts[i];
			continue;
		}
		p->egress = fmax(p->egress, t->hosts[i].port.egress);
		p->ingress = fmax(p->ingress, t->hosts[i].port.ingress);
	}
	t->nhosts = n + 1;
	if (t->nhosts > TUNED_HOSTS)
		return 0;
	t->trips = err_calloc(t->nhosts * t->nhosts, sizeof *t->trips, "the tuning", err);
	return t->trips ? 0 : -1;
}

void tuning_add_trip(struct select_tuning *t, const char *a, const char *b, double round_trip)
{
	const struct tuned_host *x = find_host(t, a), *y = find_host(t, b);

	if (!t->trips || !x || !y || x == y)
		return;
	double *trip = trip_of(t, x < y ? x : y, x < y ? y : x);
	*trip = fmax(*trip, round_trip);
}

/* Bytes per second, at least 1. */
static uint64_t rate_from(double seconds)
{
	const double rate = 1 / seconds;

	return rate < 1 ? 1 : rate < 1e18 ? (uint64_t)rate : (uint64_t)1e18;
}

void tuning_apply(const struct select_tuning *t, const char *const *names, struct network *n)
{
	for (int h = 0; h < n->n; h++) {
		const struct tuned_host *own = names[h] ? find_host(t, names[h]) : NULL;
		if (!own)
			continue;
		network_add(n, h,
		            &(struct network_found){.up = rate_from(own->port.egress),
		                                    .down = rate_from(own->port.ingress),
		                                    .from = NETWORK_TUNING});
		for (int k = 0; t->trips && k < h; k++) {
			const struct tuned_host *other = names[k] ? find_host(t, names[k]) : NULL;
			if (other && other != own)
				n->round_trip =
				        fmax(n->round_trip, *trip_of(t, own < other ? own : other,
				                                     own < other ? other : own));
		}
	}
}

static bool same_case(const struct select_measured *a, const struct select_measured *b)
{
	return a->alg->kind == b->alg->kind && a->size == b->size && a->secure == b->secure &&
	       a->memory == b->memory && a->bytes == b->bytes;
}

int tuning_add(struct select_tuning *t, const struct select_measured *m, struct err *err)
{
	struct select_measured *grown;

	for (size_t i = 0; i < t->nmeasured; i++)
		if (same_case(&t->measured[i], m) && t->measured[i].alg == m->alg) {
			t->measured[i] = *m;
			return 0;
		}
	grown = err_grow(t->measured, t->nmeasured, sizeof *grown, "the tuning", err);
	if (!grown)
		return -1;
	t->measured = grown;
	t->measured[t->nmeasured++] = *m;
	return 0;
}

/* ---- reading ---- */

/* The reader's position, for messages. */
struct place {
	const char *path;
	size_t row; /* of "measured" */
	struct err *err;
};

#define MALFORMED(p, ...) err_set((p)->err, ERR_INPUT, __VA_ARGS__)

static int read_rates(const struct place *p, const char *name, json_t *object,
                      struct price_model *m)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return MALFORMED(p, "%s: %s is not an object", p->path, name);
	json_object_foreach(object, key, value)
	{
		size_t i = 0;
		if (strcmp(key, "store_and_forward") == 0) {
			if (!json_is_boolean(value))
				return MALFORMED(p, "%s: %s.%s is not true or false", p->path, name,
				                 key);
			m->store_and_forward = json_is_true(value);
			continue;
		}
		while (i < NRATES && strcmp(key, rates[i].name) != 0)
			i++;
		if (i == NRATES)
			return MALFORMED(p, "%s: %s.%s is an unknown rate", p->path, name, key);
		if (!json_is_number(value) || json_number_value(value) < 0 ||
		    json_number_value(value) > RATE_MAX)
			return MALFORMED(p, "%s: %s.%s is not a number from 0 to %g", p->path, name,
			                 key, RATE_MAX);
		*rate_of(m, i) = json_number_value(value);
	}
	return 0;
}

/* A positive number of seconds, or per byte. */
static int read_seconds(const struct place *p, const char *where, const char *key,
                        const json_t *value, double *out)
{
	*out = json_number_value(value);
	if (json_is_number(value) && *out > 0 && *out <= RATE_MAX)
		return 0;
	return MALFORMED(p, "%s: %s.%s is not a number above 0, and at most %g", p->path, where,
	                 key, RATE_MAX);
}

static int read_hosts(const struct place *p, json_t *hosts, struct select_tuning *t)
{
	const char *name;
	json_t *value;

	json_object_foreach(hosts, name, value)
	{
		struct price_port port;
		char where[HOST_NAME + 8];
		if (!host_name_is_right(name))
			return MALFORMED(p, "%s: hosts has a name that no host has", p->path);
		snprintf(where, sizeof where, "hosts.%s", name);
		if (read_seconds(p, where, "egress", json_object_get(value, "egress"),
		                 &port.egress) < 0 ||
		    read_seconds(p, where, "ingress", json_object_get(value, "ingress"),
		                 &port.ingress) < 0 ||
		    tuning_add_host(t, name, port, p->err) < 0)
			return -1;
	}
	return tuning_settle_hosts(t, p->err);
}

static int read_trips(const struct place *p, json_t *trips, struct select_tuning *t)
{
	const char *name, *other;
	json_t *row, *value;
	double seconds;

	json_object_foreach(trips, name, row)
	{
		if (!json_is_object(row))
			return MALFORMED(p, "%s: a row of round_trips is not an object", p->path);
		json_object_foreach(row, other, value)
		{
			if (!find_host(t, name) || !find_host(t, other))
				return MALFORMED(p, "%s: round_trips has a host that hosts lacks",
				                 p->path);
			if (read_seconds(p, "round_trips", other, value, &seconds) < 0)
				return -1;
			tuning_add_trip(t, name, other, seconds);
		}
	}
	return 0;
}

static int read_times(const struct place *p, json_t *times, struct select_measured m,
                      enum coll_kind kind, struct select_tuning *t)
{
	const char *name;
	json_t *value;

	if (!json_is_object(times))
		return MALFORMED(p, "%s: measured[%zu].times is not an object", p->path, p->row);
	json_object_foreach(times, name, value)
	{
		m.alg = coll_find(kind, name);
		m.seconds = json_number_value(value);
		if (!m.alg)
			return MALFORMED(p, "%s: measured[%zu].times.%s: %s has no such algorithm",
			                 p->path, p->row, name, coll_name(kind));
		if (!json_is_number(value) || m.seconds <= 0)
			return MALFORMED(p, "%s: measured[%zu].times.%s is not a number above 0",
			                 p->path, p->row, name);
		if (tuning_add(t, &m, p->err) < 0)
			return -1;
	}
	return 0;
}

/* An integer member within [min, max]; false after an error. */
static bool read_integer(const struct place *p, json_t *row, const char *key, json_int_t min,
                         json_int_t max, json_int_t *out)
{
	const json_t *value = json_object_get(row, key);

	*out = json_integer_value(value);
	if (json_is_integer(value) && *out >= min && *out <= max)
		return true;
	MALFORMED(p, "%s: measured[%zu].%s is not a number from %lld to %lld", p->path, p->row, key,
	          (long long)min, (long long)max);
	return false;
}

static int read_row(const struct place *p, json_t *row, struct select_tuning *t)
{
	static const char *const keys[] = {"collective", "size",  "secure",
	                                   "memory",     "bytes", "times"};
	const char *name = json_string_value(json_object_get(row, "collective")), *key;
	const json_t *secure = json_object_get(row, "secure"),
	             *memory = json_object_get(row, "memory");
	json_int_t size, bytes;
	enum coll_kind kind;
	json_t *value;

	json_object_foreach(row, key, value)
	{
		size_t i = 0;
		while (i < sizeof keys / sizeof keys[0] && strcmp(key, keys[i]) != 0)
			i++;
		if (i == sizeof keys / sizeof keys[0])
			return MALFORMED(p, "%s: measured[%zu].%s is an unknown key", p->path,
			                 p->row, key);
	}
	if (!name || coll_by_name(name, &kind) < 0)
		return MALFORMED(p, "%s: measured[%zu].collective is not a collective", p->path,
		                 p->row);
	if (!read_integer(p, row, "size", 1, JOB_MAX_SIZE, &size) ||
	    !read_integer(p, row, "bytes", 0, INT64_MAX, &bytes))
		return -1;
	if (!json_is_boolean(secure))
		return MALFORMED(p, "%s: measured[%zu].secure is not true or false", p->path,
		                 p->row);
	if (memory && !json_is_boolean(memory))
		return MALFORMED(p, "%s: measured[%zu].memory is not true or false", p->path,
		                 p->row);
	const struct select_measured m = {.size = (int)size,
	                                  .bytes = (uint64_t)bytes,
	                                  .secure = json_is_true(secure),
	                                  .memory = json_is_true(memory)};
	return read_times(p, json_object_get(row, "times"), m, kind, t);
}

static int read_all(const char *path, json_t *all, struct select_tuning *t, struct err *err)
{
	struct place p = {path, 0, err};
	const json_t *version = json_object_get(all, "version");
	const char *key;
	json_t *value, *row;

	if (!json_is_object(all))
		return MALFORMED(&p, "%s: not a tuning file: the JSON value is not an object",
		                 path);
	if (!json_is_integer(version) || json_integer_value(version) != VERSION)
		return MALFORMED(&p, "%s: version is not %d", path, VERSION);
	json_object_foreach(all, key, value)
	{
		if (strcmp(key, "rates") == 0) {
			if (read_rates(&p, key, value, &t->rates) < 0)
				return -1;
		} else if (strcmp(key, "memory_rates") == 0) {
			if (read_rates(&p, key, value, &t->memory) < 0)
				return -1;
			t->memory.inside = t->memory.latency;
			t->memory.lends = true;
		} else if (strcmp(key, "hosts") == 0 || strcmp(key, "round_trips") == 0) {
			if (!json_is_object(value))
				return MALFORMED(&p, "%s: %s is not an object", path, key);
		} else if (strcmp(key, "version") != 0 && strcmp(key, "measured") != 0)
			return MALFORMED(&p, "%s: %s is an unknown key", path, key);
	}
	if (read_hosts(&p, json_object_get(all, "hosts"), t) < 0 ||
	    read_trips(&p, json_object_get(all, "round_trips"), t) < 0)
		return -1;
	value = json_object_get(all, "measured");
	if (value && !json_is_array(value))
		return MALFORMED(&p, "%s: measured is not an array", path);
	json_array_foreach(value, p.row, row)
	{
		if (read_row(&p, row, t) < 0)
			return -1;
	}
	return 0;
}

#define PIPE_WAIT (10 * 1000) /* ms for the next bytes of a pipe, while the other ranks wait */

/* A file that jansson reads. */
struct source {
	const char *path;
	int fd;
	bool pipe, failed; /* a failed read: *err has why */
	struct err *err;
};

static bool is_pipe(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_source(struct source *s, struct err *err)
{
	struct stat st;
	s->err = err;
	s->pipe = is_pipe(s->path);
	if (!s->pipe)
		return s->fd = input_open(s->path, &st, err);
	s->fd = io_retry(open(s->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	return s->fd < 0 ? err_errno(err, ERR_INPUT, "%s: cannot open", s->path) : s->fd;
}

static size_t read_source(void *buf, size_t len, void *source)
{
	struct source *s = source;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	ssize_t n = -1;
	if (s->failed)
		return (size_t)-1;
	if (s->pipe && io_retry(poll(&p, 1, PIPE_WAIT)) == 0)
		err_set(s->err, ERR_INPUT, "%s: nothing has come from this pipe for %d s", s->path,
		        PIPE_WAIT / 1000);
	else if ((n = io_retry(read(s->fd, buf, len))) < 0)
		err_errno(s->err, ERR_INPUT, "%s: cannot read", s->path);
	s->failed = n < 0;
	return (size_t)n;
}

int tuning_read(struct select_tuning *t, const char *path, struct err *err)
{
	struct source s = {.path = path};
	json_error_t e;
	int ret = -1;

	tuning_init(t);
	if (open_source(&s, err) < 0)
		return -1;
	json_t *all = json_load_callback(read_source, &s, JSON_REJECT_DUPLICATES, &e);
	if (all && !s.failed)
		ret = read_all(path, all, t, err);
	else if (!s.failed)
		err_set(err, ERR_INPUT, "%s: is not a tuning file: line %d: %s", path, e.line,
		        e.text);
	json_decref(all);
	close(s.fd);
	return ret;
}

int tuning_read_old(struct select_tuning *t, const char *path, struct err *err)
{
	struct stat st;
	if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return tuning_read(t, path, err);
	tuning_init(t);
	return 0;
}

/* ---- writing ---- */

static json_t *rates_json(const struct price_model *m)
{
	struct price_model copy = *m;
	json_t *object = json_object();

	for (size_t i = 0; i < NRATES; i++)
		json_object_set_new(object, rates[i].name, json_measured(*rate_of(&copy, i)));
	json_object_set_new(object, "store_and_forward", json_boolean(m->store_and_forward));
	return object;
}

/* The row of @t whose first measurement is @i; NULL if an earlier row contains it. */
static json_t *row_json(const struct select_tuning *t, size_t i)
{
	const struct select_measured *m = &t->measured[i];
	json_t *times = json_object();

	for (size_t k = 0; k < t->nmeasured; k++) {
		const struct select_measured *other = &t->measured[k];
		if (!same_case(other, m))
			continue;
		if (k < i) {
			json_decref(times);
			return NULL;
		}
		json_object_set_new(times, other->alg->name, json_measured(other->seconds));
	}
	json_t *row = json_pack("{s:s, s:i, s:b, s:I, s:o}", "collective", coll_name(m->alg->kind),
	                        "size", m->size, "secure", (int)m->secure, "bytes",
	                        (json_int_t)m->bytes, "times", times);
	if (m->memory)
		json_object_set_new(row, "memory", json_true());
	return row;
}

static json_t *hosts_json(const struct select_tuning *t)
{
	json_t *hosts = json_object();

	for (size_t i = 0; i < t->nhosts; i++)
		json_object_set_new(hosts, t->hosts[i].name,
		                    json_pack("{s:o, s:o}", "egress",
		                              json_measured(t->hosts[i].port.egress), "ingress",
		                              json_measured(t->hosts[i].port.ingress)));
	return hosts;
}

static json_t *trips_json(const struct select_tuning *t)
{
	json_t *all = json_object();

	for (size_t i = 0; t->trips && i < t->nhosts; i++) {
		json_t *row = json_object();
		for (size_t k = i + 1; k < t->nhosts; k++) {
			const double trip = *trip_of(t, &t->hosts[i], &t->hosts[k]);
			if (trip > 0)
				json_object_set_new(row, t->hosts[k].name, json_measured(trip));
		}
		if (json_object_size(row))
			json_object_set(all, t->hosts[i].name, row);
		json_decref(row);
	}
	return all;
}

static char *dump(const struct select_tuning *t)
{
	json_t *measured = json_array(), *all;
	char *text;

	for (size_t i = 0; i < t->nmeasured; i++) {
		json_t *row = row_json(t, i);
		if (row)
			json_array_append_new(measured, row);
	}
	all = json_pack("{s:i, s:o, s:o}", "version", VERSION, "rates", rates_json(&t->rates),
	                "measured", measured);
	if (t->memory.lends)
		json_object_set_new(all, "memory_rates", rates_json(&t->memory));
	if (t->nhosts) {
		json_object_set_new(all, "hosts", hosts_json(t));
		json_object_set_new(all, "round_trips", trips_json(t));
	}
	text = json_text(all, JSON_INDENT(2));
	json_decref(all);
	return text;
}

int tuning_write(const struct select_tuning *t, const char *path, struct err *err)
{
	char *text = dump(t);
	const size_t len = text ? strlen(text) : 0;

	if (!text)
		return err_nomem(err, "the tuning file", 0);
	text[len] = '\n'; /* overwrites the terminator */
	int ret = outfile_put(path, text, len + 1, err);
	free(text);
	return ret;
}
