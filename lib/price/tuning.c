/*
 * Reads and writes the tuning file. See tuning.h.
 */
#include "algorithms/table.h"
#include "lib/price/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "lib/base/json.h"
#include "lib/base/limits.h"
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
	tuning_init(t);
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
		} else if (strcmp(key, "version") != 0 && strcmp(key, "measured") != 0)
			return MALFORMED(&p, "%s: %s is an unknown key", path, key);
	}
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

int tuning_read(struct select_tuning *t, const char *path, struct err *err)
{
	json_error_t e;
	json_t *all = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
	int ret = -1;

	tuning_init(t);
	if (all)
		ret = read_all(path, all, t, err);
	else if (e.line < 0) /* jansson could not open the file */
		err_errno(err, ERR_INPUT, "%s", path);
	else
		err_set(err, ERR_INPUT, "%s: line %d: %s", path, e.line, e.text);
	json_decref(all);
	return ret;
}

int tuning_read_old(struct select_tuning *t, const char *path, struct err *err)
{
	if (path && access(path, F_OK) == 0)
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
