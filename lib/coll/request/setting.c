/* The values of settings: readers by kind, and the error for a malformed value. */
#include "lib/coll/request/setting.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"
#include "lib/coll/request/request.h"
#include "lib/data/formats/format.h"

/* ---- readers ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool read_int(const char *s, int64_t min, int64_t max, int *out)
{
	uint64_t v;

	if (!digits_read(&s, &v) || *s || v > (uint64_t)max || (int64_t)v < min)
		return false;
	*out = (int)v;
	return true;
}

static bool read_size(const char *s, int64_t min, uint64_t *out)
{
	static const char units[] = "KMGT";
	uint64_t v;

	if (!digits_read(&s, &v))
		return false;
	const char *unit = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;
	if (unit) {
		if (__builtin_mul_overflow(v, (uint64_t)1 << 10 * (unit - units + 1), &v))
			return false;
		s += strcmp(s + 1, "iB") == 0 ? 3 : 1;
	}
	/* Sizes are file offsets sooner or later: 63 bits. */
	if (*s || v > INT64_MAX || (int64_t)v < min)
		return false;
	*out = v;
	return true;
}

/* "100Mbit", "1Gbit/s"; else a size, with "/s" or without. */
static bool read_rate(const char *s, int64_t min, uint64_t *out)
{
	static const char units[] = "KMGT";
	char text[32];
	size_t len = strlen(s);
	if (len > 2 && strcmp(s + len - 2, "/s") == 0)
		len -= 2;
	if (len >= sizeof text)
		return false;
	snprintf(text, sizeof text, "%.*s", (int)len, s);
	if (len < 4 || strcmp(text + len - 3, "bit") != 0)
		return read_size(text, min, out);
	const char *p = text;
	uint64_t bits;
	if (!digits_read(&p, &bits))
		return false;
	const char *unit = strchr(units, toupper((unsigned char)*p));
	for (const char *u = units; *p != 'b' && unit && u <= unit; u++)
		if (__builtin_mul_overflow(bits, 1000u, &bits))
			return false;
	if (*p != 'b' && (!unit || strcmp(p + 1, "bit") != 0))
		return false;
	*out = bits / 8;
	return bits <= INT64_MAX && (int64_t)*out >= min;
}

/* "1Gbit,200Mbit", the rates of both directions; with one, both have it. */
static bool read_link(const char *text, char between, int64_t min, uint64_t *up, uint64_t *down)
{
	const size_t len = (size_t)(strchrnul(text, between) - text);
	char first[32];

	if (len >= sizeof first)
		return false;
	snprintf(first, sizeof first, "%.*s", (int)len, text);
	return read_rate(first, min, up) &&
	       read_rate(text[len] ? text + len + 1 : first, min, down);
}

static bool read_ports(const char *s, int64_t min, int64_t max, int *first, int *last)
{
	uint64_t lo, hi;

	if (!digits_read(&s, &lo) || *s++ != '-' || !digits_read(&s, &hi) || *s)
		return false;
	if (lo < (uint64_t)min || hi > (uint64_t)max || lo > hi)
		return false;
	*first = (int)lo;
	*last = (int)hi;
	return true;
}

/* strtod with a point, whatever the locale of the program. */
static double read_double(const char *text, char **end)
{
	const locale_t c = c_locale();
	return c ? strtod_l(text, end, c) : strtod(text, end);
}

/* A number of 0 or more, as strtod reads it. */
static bool read_weight(const char *text, double *out)
{
	char *end;

	if ((!is_digit(*text) && *text != '.') ||
	    text[strspn(text, "0123456789.eE+-,")]) /* commas end a weight of a list */
		return false;
	errno = 0;
	double w = read_double(text, &end);
	*out = w;
	return !*end && end != text && w >= 0 && w <= 1e300 && errno != ERANGE;
}

static bool read_number(const char *text, double *out)
{
	const bool minus = *text == '-';

	if (!read_weight(text + minus, out))
		return false;
	*out = minus ? -*out : *out;
	return true;
}

/* "nesterov:0.7,0.9": a rate of 0 or more, and a momentum below 1 */
static bool read_outer(const char *text, struct outer *out)
{
	static const char name[] = "nesterov:";
	char rate[32];

	if (strncmp(text, name, sizeof name - 1) != 0)
		return false;
	text += sizeof name - 1;
	const size_t len = strcspn(text, ",");
	if (!text[len] || len >= sizeof rate)
		return false;
	snprintf(rate, sizeof rate, "%.*s", (int)len, text);
	return read_weight(rate, &out->rate) && read_weight(text + len + 1, &out->momentum) &&
	       out->momentum < 1;
}

/* ",7": a seed of 64 bits. */
static bool read_seed(const char *text, uint64_t *out)
{
	return *text++ == ',' && digits_read(&text, out) && !*text;
}

/* "sum", "trimmed:0.1", "dare:0.5,7" */
static bool read_op(const char *text, enum reduce_op *op, struct reduce_param *param)
{
	char name[16], part[32];
	const size_t len = strcspn(text, ":"), end = text[len] ? strcspn(text + len + 1, ",") : 0;

	if (len >= sizeof name || end >= sizeof part)
		return false;
	snprintf(name, sizeof name, "%.*s", (int)len, text);
	if (reduce_op_by_name(name, op) < 0)
		return false;
	*param = (struct reduce_param){0};
	if (!reduce_has_part(*op))
		return !text[len];
	if (!text[len])
		return false;
	snprintf(part, sizeof part, "%.*s", (int)end, text + len + 1);
	text += len + 1 + end;
	if (!read_weight(part, &param->part))
		return false;
	if (*op == REDUCE_TRIMMED)
		return !*text && param->part < 0.5;
	if (*op == REDUCE_SLERP)
		return !*text && param->part <= 1;
	return param->part > 0 && param->part <= 1 &&
	       (*op == REDUCE_DARE ? read_seed(text, &param->seed) : !*text);
}

/* Can @text be the name of a host? A number can't. */
static bool is_host(const char *text)
{
	bool letter = false;

	for (const char *p = text; *p; p++) {
		letter |= isalpha((unsigned char)*p) != 0;
		if (!isalnum((unsigned char)*p) && !strchr(".-_", *p))
			return false;
	}
	return letter && isalnum((unsigned char)*text);
}

/* Does @list have @word, and as which of its words? -1: it has not. */
static int word_index(const char *list, const char *word)
{
	const size_t len = strlen(word);
	for (int i = 0; list; i++) {
		const char *bar = strchrnul(list, '|');
		if ((size_t)(bar - list) == len && memcmp(list, word, len) == 0)
			return i;
		list = *bar ? bar + 1 : NULL;
	}
	return -1;
}

/* Is @word one of the words of @list ("a|b|c", or NULL)? */
static bool in_list(const char *list, const char *word)
{
	return word_index(list, word) >= 0;
}

/* 1 for 1, true, yes, on; 0 for 0, false, no, off; -1 for any other @text. */
static int truth(const char *text)
{
	if (in_list("1|true|yes|on", text))
		return 1;
	return in_list("0|false|no|off", text) ? 0 : -1;
}

static bool is_word(const struct setting *s, const char *text)
{
	return in_list(s->choices, text) || in_list(s->aliases, text);
}

static int add_to_list(const char ***list, int *n, const char *text, struct err *err)
{
	const char **grown = err_grow(*list, (size_t)*n, sizeof **list, "the list of files", err);
	if (!grown)
		return -1;
	*list = grown;
	grown[(*n)++] = text;
	return 0;
}

/* "1,0.25" as weights. 1: malformed. */
static int read_weights(const char *text, double **weights, int *n, struct err *err)
{
	char *words = err_strdup(text, "the weights", err);
	double *read = err_realloc(NULL, strlen(text) / 2 + 1, sizeof *read, "the weights", err);
	int count = 0;
	const bool lacking = !words || !read;
	bool ok = !lacking;
	for (char *word = words, *next; ok && word; word = next) {
		next = strchr(word, ',');
		if (next)
			*next++ = '\0';
		ok = read_weight(word, &read[count++]);
	}
	free(words);
	if (!ok) {
		free(read);
		return lacking ? -1 : 1;
	}
	free(*weights);
	*weights = read;
	*n = count;
	return 0;
}

/* "1Gbit,400Mbit:200Mbit" as pairs of rates. 1: malformed. */
static int read_rates(const char *text, int64_t min, uint64_t **rates, int *n, struct err *err)
{
	char *words = err_strdup(text, "the rates", err);
	uint64_t *read = err_realloc(NULL, strlen(text) + 2, sizeof *read, "the rates", err);
	int count = 0;
	const bool lacking = !words || !read;
	bool ok = !lacking;
	for (char *word = words, *next; ok && word; word = next, count++) {
		next = strchr(word, ',');
		if (next)
			*next++ = '\0';
		ok = read_link(word, ':', min, &read[2 * count], &read[2 * count + 1]);
	}
	free(words);
	if (!ok) {
		free(read);
		return lacking ? -1 : 1;
	}
	free(*rates);
	*rates = read;
	*n = count;
	return 0;
}

/* "3,4,0" as numbers. 1: malformed. */
static int read_rows(const char *text, uint64_t **rows, int *n, struct err *err)
{
	uint64_t *read =
	        err_realloc(NULL, strlen(text) / 2 + 1, sizeof *read, "the rows of the parts", err);
	int count = 0;
	if (!read)
		return -1;
	for (const char *s = text;; s++) {
		const size_t digits = strspn(s, "0123456789");
		if (!digits || digits > 18 || (s[digits] && s[digits] != ',')) {
			free(read);
			return 1;
		}
		read[count++] = strtoull(s, NULL, 10);
		s += digits;
		if (!*s)
			break;
	}
	free(*rows);
	*rows = read;
	*n = count;
	return 0;
}

/* ---- one value ---- */

const char *setting_choices(const struct setting *s, char *buf, size_t cap)
{
	size_t at = 0;

	for (const char *c = s->choices; *c && at + 3 < cap; c++) {
		buf[at++] = *c == '|' ? ',' : *c;
		if (*c == '|')
			buf[at++] = ' ';
	}
	buf[at] = '\0';
	return buf;
}

/* The error for a malformed value. */
static int malformed(const struct setting *row, const char *text, const char *subject,
                     struct err *err)
{
	static const char fmt[] = "%s: '%s' is not %s";
	char words[256];

	switch (row->kind) {
	case SETTING_INT:
	case SETTING_LOUDER:
		if (row->max < INT32_MAX)
			return err_set(err, ERR_USAGE,
			               "%s: '%s' is not a number from %" PRId64 " to %" PRId64,
			               subject, text, row->min, row->max);
		return err_set(err, ERR_USAGE, fmt, subject, text, "a number");
	case SETTING_RANK:
		return err_set(err, ERR_USAGE, fmt, subject, text, "a rank: a number, or auto");
	case SETTING_THREADS:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a number of threads from 1 to 64, or auto");
	case SETTING_ROOT:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a rank from 0 to 65535, or the name of a host");
	case SETTING_SIZE:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               row->min > 0 ? "a size above 0, such as 4096, 64K, 256M or 2GiB"
		                            : "a size, such as 4096, 64K, 256M or 2GiB");
	case SETTING_RATE:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               row->min > 1 ? "a rate of at least 1K, such as 100Mbit, 1Gbit (bits "
		                              "a second) or 10M (bytes)"
		                            : "a rate, such as 100Mbit, 1Gbit (bits a second) or "
		                              "10M (bytes)");
	case SETTING_LINK:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a rate of at least 1K, such as 1Gbit, or two, such as "
		               "200Mbit,1Gbit: sent, received");
	case SETTING_RATES:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a list of rates, such as 1Gbit,1Gbit,400Mbit:200Mbit");
	case SETTING_DURATION:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               row->min > 0 ? "a duration of 1ms or more, such as 30s, 500ms or 2m"
		                            : "a duration, such as 30s, 500ms or 2m");
	case SETTING_WEIGHTS:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a weight, such as 1 or 0.25, or a list of them, such as 1,0.25");
	case SETTING_NUMBER:
		return err_set(err, ERR_USAGE, fmt, subject, text, "a number, such as 0.5 or -1");
	case SETTING_OUTER:
		return err_set(
		        err, ERR_USAGE, fmt, subject, text,
		        "nesterov:LR,MU, with a learning rate and a momentum from 0 to below "
		        "1, such as nesterov:0.7,0.9");
	case SETTING_PORTS:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "a range of ports, such as 7000-7100");
	case SETTING_ROWS:
		return err_set(err, ERR_USAGE, fmt, subject, text, "a list of rows, such as 3,4,0");
	case SETTING_DEVICE:
		return err_set(err, ERR_USAGE, fmt, subject, text,
		               "cpu, cuda or cuda:LIST, such as cuda:0,1");
	case SETTING_FLAG:
	case SETTING_QUIET:
		return err_set(err, ERR_USAGE, fmt, subject, text, "1 or 0");
	case SETTING_OP:
		if (strncmp(text, "trimmed", strlen("trimmed")) == 0)
			return err_set(err, ERR_USAGE, fmt, subject, text,
			               "trimmed:F with one number F from 0 to below 0.5, such as "
			               "trimmed:0.1");
		if (strncmp(text, "ties", strlen("ties")) == 0)
			return err_set(err, ERR_USAGE, fmt, subject, text,
			               "ties:D with one number D from above 0 to 1, such as "
			               "ties:0.2");
		if (strncmp(text, "dare", strlen("dare")) == 0)
			return err_set(err, ERR_USAGE, fmt, subject, text,
			               "dare:D,SEED with a number D from above 0 to 1 and a "
			               "whole number, such as dare:0.5,7");
		if (strncmp(text, "slerp", strlen("slerp")) == 0)
			return err_set(err, ERR_USAGE, fmt, subject, text,
			               "slerp:T with one number T from 0 to 1, such as slerp:0.5");
		return err_set(err, ERR_USAGE, "%s: '%s' is not one of %s", subject, text,
		               setting_choices(row, words, sizeof words));
	default:
		return err_set(err, ERR_USAGE, "%s: '%s' is not one of %s", subject, text,
		               setting_choices(row, words, sizeof words));
	}
}

static bool is_listed(const struct device_list *l, uint64_t number)
{
	for (int i = 0; i < l->n; i++)
		if ((uint64_t)l->numbers[i] == number)
			return true;
	return false;
}

/* "cpu", "cuda" or "cuda:0,1" */
static int read_devices(const struct setting *row, const char *text, const char *subject,
                        struct device_list *out, struct err *err)
{
	struct device_list l = {.text = text, .wanted = strcmp(text, "cpu") != 0};
	const char *p = strncmp(text, "cuda:", 5) == 0 ? text + 4 : "";
	uint64_t number;

	if (l.wanted && strcmp(text, "cuda") != 0 && !*p)
		return malformed(row, text, subject, err);
	while (*p++) {
		if (!digits_read(&p, &number) || number > INT_MAX || (*p && *p != ','))
			return malformed(row, text, subject, err);
		if (l.n == DEVICES_MOST)
			return err_set(err, ERR_USAGE, "%s: '%s' lists more than %d devices",
			               subject, text, DEVICES_MOST);
		if (is_listed(&l, number))
			return err_set(err, ERR_USAGE, "%s: '%s' lists device %" PRIu64 " twice",
			               subject, text, number);
		l.numbers[l.n++] = (int)number;
	}
	*out = l;
	return 0;
}

int setting_read(const struct setting *s, void *base, const char *text, const char *subject,
                 struct err *err)
{
	void *to = (char *)base + s->offset, *other = (char *)base + s->other;
	bool ok = true;
	int ret;

	switch ((enum setting_kind)s->kind) {
	case SETTING_FLAG:
		ret = text ? truth(text) : 1;
		ok = ret >= 0;
		*(bool *)to = ret == 1;
		break;
	case SETTING_LOUDER:
		if (text)
			ok = read_int(text, s->min, s->max, to);
		else
			*(int *)to = *(int *)to < 0 ? 1 : *(int *)to + 1;
		break;
	case SETTING_QUIET:
		ret = text ? truth(text) : 1;
		ok = ret >= 0;
		if (ret == 1)
			*(int *)to = -1;
		break;
	case SETTING_STRING:
		*(const char **)to = text;
		break;
	case SETTING_THREADS:
		if (strcmp(text, "auto") == 0) {
			*(int *)to = 0;
			break;
		}
		ok = read_int(text, s->min, s->max, to);
		break;
	case SETTING_RANK:
		if (strcmp(text, "auto") == 0) {
			*(int *)to = SETTINGS_RANK_AUTO;
			break;
		}
		/* fallthrough */
	case SETTING_INT:
		ok = read_int(text, s->min, s->max, to);
		break;
	case SETTING_ROOT:
		*(const char **)other = is_host(text) ? text : NULL;
		ok = is_host(text) || read_int(text, s->min, s->max, to);
		break;
	case SETTING_SIZE:
		ok = read_size(text, s->min, to);
		break;
	case SETTING_RATE:
		ok = read_rate(text, s->min, to);
		break;
	case SETTING_LINK:
		ok = read_link(text, ',', s->min, to, other);
		break;
	case SETTING_RATES:
		ret = read_rates(text, s->min, to, other, err);
		if (ret < 0)
			return -1;
		ok = ret == 0;
		break;
	case SETTING_DURATION:
		ok = duration_read(text, to) && *(int64_t *)to >= s->min;
		break;
	case SETTING_PORTS:
		ok = read_ports(text, s->min, s->max, to, other);
		break;
	case SETTING_NUMBER:
		ok = read_number(text, to);
		break;
	case SETTING_OUTER:
		ok = read_outer(text, to);
		break;
	case SETTING_WEIGHTS:
		ret = read_weights(text, to, other, err);
		if (ret < 0)
			return -1;
		ok = ret == 0;
		break;
	case SETTING_LIST:
		return add_to_list(to, other, text, err);
	case SETTING_ROWS:
		ret = read_rows(text, to, other, err);
		if (ret < 0)
			return -1;
		ok = ret == 0;
		break;
	case SETTING_DEVICE:
		if (read_devices(s, text, subject, to, err) < 0)
			return -1;
		break;
	case SETTING_WORD:
		ok = is_word(s, text);
		if (ok)
			*(const char **)to = text;
		break;
	case SETTING_OP:
		ok = read_op(text, to, other);
		break;
	case SETTING_ORDER:
		ok = is_word(s, text);
		*(bool *)to = ok && strcmp(text, "rank") == 0;
		break;
	case SETTING_DTYPE:
		ok = is_word(s, text);
		if (ok)
			*(enum dtype *)to = dtype_by_name(text);
		break;
	case SETTING_FORMAT:
		ok = is_word(s, text);
		if (ok)
			*(const struct format **)to = format_by_name(text);
		break;
	case SETTING_INTEGERS:
		ok = is_word(s, text);
		if (ok)
			*(enum coll_integers *)to =
			        (enum coll_integers)(INTEGERS_FIRST + word_index(s->choices, text));
		break;
	case SETTING_CHOICE:
		ok = is_word(s, text);
		if (ok)
			*(unsigned *)to = (unsigned)word_index(s->choices, text);
		break;
	}
	if (!ok)
		return malformed(s, text, subject, err);
	if (s->have)
		*(bool *)((char *)base + s->have) = true;
	return 0;
}

bool setting_is_once(const struct setting *s)
{
	switch ((enum setting_kind)s->kind) {
	case SETTING_LINK:
	case SETTING_RATES:
	case SETTING_ROWS:
	case SETTING_WEIGHTS:
	case SETTING_PORTS:
	case SETTING_DEVICE:
	case SETTING_DTYPE:
	case SETTING_FORMAT:
		return true;
	default:
		return s->once;
	}
}

void setting_default(const struct setting *s, void *base)
{
	struct setting of = *s;
	of.have = 0;
	if (s->def && s->kind != SETTING_WEIGHTS) /* no weights mean 1 for each input */
		setting_read(&of, base, s->def, s->name, NULL);
}

void setting_release(const struct setting *s, void *base)
{
	void **member = (void **)((char *)base + s->offset);
	if (s->kind != SETTING_LIST && s->kind != SETTING_ROWS && s->kind != SETTING_WEIGHTS &&
	    s->kind != SETTING_RATES)
		return;
	free(*member);
	*member = NULL;
}

/* ---- a value as text ---- */

static void list_text(struct buf *out, const char *const *list, int n)
{
	for (int i = 0; i < n; i++) {
		buf_put_text(out, i ? ", " : "");
		buf_put_text(out, list[i]);
	}
	if (!n)
		buf_put_text(out, "not given");
}

static void rows_text(struct buf *out, const uint64_t *rows, int n)
{
	char number[24];

	for (int i = 0; rows && i < n; i++) {
		snprintf(number, sizeof number, "%s%" PRIu64, i ? "," : "", rows[i]);
		buf_put_text(out, number);
	}
	if (!rows)
		buf_put_text(out, "none");
}

static void value_text(const struct setting *s, const void *base, struct buf *out)
{
	const void *at = (const char *)base + s->offset, *other = (const char *)base + s->other;
	const char *text;
	char number[24], op[REDUCE_OP_TEXT];

	switch ((enum setting_kind)s->kind) {
	case SETTING_FLAG:
		buf_put_text(out, *(const bool *)at ? "given" : "not given");
		return;
	case SETTING_STRING:
	case SETTING_WORD:
		text = *(const char *const *)at;
		buf_put_text(out, text ? text : "not given");
		return;
	case SETTING_OP:
		buf_put_text(out, reduce_op_text(*(const enum reduce_op *)at,
		                                 (const struct reduce_param *)other, op));
		return;
	case SETTING_ORDER:
		buf_put_text(out, *(const bool *)at ? "rank" : "any");
		return;
	case SETTING_INTEGERS:
		buf_put_text(out, integers_name(*(const enum coll_integers *)at));
		return;
	case SETTING_LIST:
		list_text(out, *(const char *const *const *)at, *(const int *)other);
		return;
	case SETTING_ROWS:
		rows_text(out, *(const uint64_t *const *)at, *(const int *)other);
		return;
	case SETTING_SIZE:
	case SETTING_RATE:
	case SETTING_DURATION:
		snprintf(number, sizeof number, "%" PRIu64, *(const uint64_t *)at);
		break;
	case SETTING_DTYPE:
		buf_put_text(out, *(const enum dtype *)at ? dtype_name(*(const enum dtype *)at)
		                                          : "not given");
		return;
	case SETTING_OUTER:
		snprintf(op, sizeof op, "%.17g,%.17g", ((const struct outer *)at)->rate,
		         ((const struct outer *)at)->momentum);
		buf_put_text(out, op);
		return;
	case SETTING_NUMBER:
		snprintf(op, sizeof op, "%.17g", *(const double *)at);
		buf_put_text(out, op);
		return;
		break;
	default:
		snprintf(number, sizeof number, "%d", *(const int *)at);
	}
	buf_put_text(out, number);
}

int setting_text(const struct setting *s, const void *base, struct buf *out, struct err *err)
{
	if (s->have && !*(const bool *)((const char *)base + s->have))
		buf_put_text(out, "not given");
	else
		value_text(s, base, out);
	buf_put_u8(out, '\0');
	return out->failed ? err_nomem(err, s->name, out->len) : 0;
}
