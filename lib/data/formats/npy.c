/*
 * The header of a .npy file: magic, version, length, and a Python dict literal. Reads it from the
 * caller's bounded buffer, token by token, without allocation; writes it like numpy.save.
 */
#include "lib/data/formats/array.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6
#define PREFIX_V1   10 /* magic, version, 16-bit length */
#define PREFIX_V2   12 /* the same with 32 bits */
#define HEADER_MAX  10000
#define ALIGNMENT   64
#define GROWTH_DIGITS \
	21 /* numpy pads the header so that the first dimension can grow to this many digits */

/* ---- tokens ---- */

struct scan {
	const char *start, *p, *end;
	struct err *err;
};

struct text {
	const char *p;
	size_t len;
};

#define QUOTED 48

/* @t for a message: in quotes, printable, not too long. */
static const char *quoted(struct text t, char buf[QUOTED])
{
	size_t n = 0;
	buf[n++] = '\'';
	for (size_t i = 0; i < t.len && n < QUOTED - 5; i++)
		buf[n++] = isprint((unsigned char)t.p[i]) ? t.p[i] : '?';
	if (n == QUOTED - 5)
		n += (size_t)sprintf(buf + n, "...");
	buf[n++] = '\'';
	buf[n] = '\0';
	return buf;
}

static void skip_space(struct scan *s)
{
	while (s->p < s->end && memchr(" \t\r\n\f", *s->p, 5))
		s->p++;
}

static bool next_is(struct scan *s, char c)
{
	skip_space(s);
	return s->p < s->end && *s->p == c;
}

static bool accept(struct scan *s, char c)
{
	bool is = next_is(s, c);
	s->p += is;
	return is;
}

/* The next word, number or single character, for messages. */
static struct text peek(struct scan *s)
{
	skip_space(s);
	const char *q = s->p;
	while (q < s->end && (isalnum((unsigned char)*q) || *q == '_' || *q == '.'))
		q++;
	if (q == s->p && q < s->end)
		q++;
	return (struct text){s->p, (size_t)(q - s->p)};
}

static int unexpected(struct scan *s, const char *expected)
{
	char buf[QUOTED];
	struct text found = peek(s);
	if (!found.len)
		return err_set(s->err, ERR_INPUT, "the header ends where %s is expected", expected);
	return err_set(s->err, ERR_INPUT, "the header has %s at byte %zu, where %s is expected",
	               quoted(found, buf), (size_t)(s->p - s->start), expected);
}

/* A string in single or double quotes; escapes are malformed here. */
static int scan_string(struct scan *s, const char *expected, struct text *out)
{
	if (!next_is(s, '\'') && !next_is(s, '"'))
		return unexpected(s, expected);
	char quote = *s->p;
	const char *from = s->p + 1, *q = from;
	while (q < s->end && *q != quote && *q != '\\' && isprint((unsigned char)*q))
		q++;
	if (q == s->end || *q != quote) {
		s->p = q;
		return unexpected(s, "a closing quote");
	}
	*out = (struct text){from, (size_t)(q - from)};
	s->p = q + 1;
	return 0;
}

static bool is_text(struct text t, const char *word)
{
	return t.len == strlen(word) && !memcmp(t.p, word, t.len);
}

static bool accept_word(struct scan *s, const char *word)
{
	struct text t = peek(s);
	bool is = is_text(t, word);
	s->p += is ? t.len : 0;
	return is;
}

/* ---- descr ---- */

/* The numeric types by their code after the byte order. */
static const struct {
	const char *code;
	enum dtype dtype;
} codes[] = {
        {"i1", DTYPE_I8},  {"i2", DTYPE_I16},   {"i4", DTYPE_I32},    {"i8", DTYPE_I64},
        {"u1", DTYPE_U8},  {"u2", DTYPE_U16},   {"u4", DTYPE_U32},    {"u8", DTYPE_U64},
        {"f2", DTYPE_F16}, {"f4", DTYPE_F32},   {"f8", DTYPE_F64},    {"b1", DTYPE_BOOL},
        {"c8", DTYPE_C64}, {"c16", DTYPE_C128}, {"f1", DTYPE_F8E5M2}, /* ml_dtypes */
};

/* Types that are refused, by the first character of their code. */
static const struct {
	char kind;
	const char *name;
} refused[] = {
        {'O', "Python objects"}, {'S', "byte strings"}, {'a', "byte strings"},
        {'U', "strings"},        {'M', "datetime64"},   {'m', "timedelta64"},
        {'V', "raw records"},    {'g', "longdouble"},   {'G', "complex longdouble"},
};

static int refuse_descr(struct scan *s, struct text descr, struct text code)
{
	char buf[QUOTED];
	const char *name = NULL;
	for (size_t i = 0; code.len && i < sizeof refused / sizeof *refused; i++)
		if (code.p[0] == refused[i].kind)
			name = refused[i].name;
	if (is_text(code, "f16") || is_text(code, "f12"))
		name = "longdouble";
	if (is_text(code, "c32") || is_text(code, "c24"))
		name = "complex longdouble";
	if (is_text(code, "V2"))
		return err_set(s->err, ERR_INPUT,
		               "dtype %s may be bfloat16, whose name .npy does not store: give "
		               "--dtype bf16 "
		               "if it is, or use .safetensors",
		               quoted(descr, buf));
	if (is_text(code, "V1"))
		return err_set(s->err, ERR_INPUT,
		               "dtype %s may be an 8-bit float, whose name .npy does not store: "
		               "give --dtype "
		               "f8e4m3 or f8e5m2 if it is, or use .safetensors",
		               quoted(descr, buf));
	if (name)
		return err_set(s->err, ERR_INPUT,
		               "dtype %s (%s) is not supported: expected integers or floats",
		               quoted(descr, buf), name);
	return err_set(s->err, ERR_INPUT,
	               "dtype %s is unknown: expected one such as '<f4', '<i8' or '|u1'",
	               quoted(descr, buf));
}

/* Is @code that of @dtype, if it is a type whose name .npy does not store? */
static bool is_nameless(enum dtype dtype, struct text code)
{
	return dtype == DTYPE_BF16
	               ? is_text(code, "V2")
	               : (dtype == DTYPE_F8E4M3 || dtype == DTYPE_F8E5M2) && is_text(code, "V1");
}

static int parse_descr(struct scan *s, enum dtype hint, struct array_info *info)
{
	struct text descr, code;
	if (next_is(s, '[') || next_is(s, '('))
		return err_set(s->err, ERR_INPUT,
		               "a dtype of records is not supported: expected one such as '<f4'");
	if (scan_string(s, "a dtype such as '<f4'", &descr))
		return -1;
	code = descr;
	char order = '=';
	if (code.len && memchr("<>|=", code.p[0], 4)) {
		order = code.p[0];
		code.p++;
		code.len--;
	}
	if (is_nameless(hint, code) && (order == '|' || order == '<')) {
		info->dtype = hint;
		return 0;
	}
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
		if (!is_text(code, codes[i].code))
			continue;
		info->dtype = codes[i].dtype;
		info->swapped = order == '>' && dtype_size(info->dtype) > 1;
		return 0;
	}
	return refuse_descr(s, descr, code);
}

/* ---- shape and the rest ---- */

/* A dimension: a decimal number without sign or leading zeros. Python 2 appended an L. */
static int parse_dim(struct scan *s, uint64_t *dim)
{
	char buf[QUOTED];
	struct text t = peek(s);
	size_t i = 0;
	*dim = 0;
	if (is_text(t, "-"))
		return err_set(s->err, ERR_INPUT, "the shape has a negative dimension");
	for (; i < t.len && isdigit((unsigned char)t.p[i]); i++)
		if (__builtin_mul_overflow(*dim, 10u, dim) ||
		    __builtin_add_overflow(*dim, (unsigned)(t.p[i] - '0'), dim))
			return err_set(s->err, ERR_INPUT, "the shape's %s is too large",
			               quoted(t, buf));
	bool leading_zero = i > 1 && t.p[0] == '0';
	size_t suffix = i < t.len && t.p[i] == 'L';
	if (!i || leading_zero || i + suffix != t.len)
		return unexpected(s, "a dimension");
	s->p += t.len;
	return 0;
}

static int parse_shape(struct scan *s, struct array_info *info)
{
	bool comma = true;
	if (!accept(s, '('))
		return unexpected(s, "a shape, a tuple such as (3, 4)");
	while (!accept(s, ')')) {
		if (!comma)
			return unexpected(s, "',' or ')'");
		if (info->ndim == ARRAY_MAX_DIMS)
			return err_set(s->err, ERR_INPUT, "the shape has more than %d dimensions",
			               ARRAY_MAX_DIMS);
		if (parse_dim(s, &info->shape[info->ndim]))
			return -1;
		info->ndim++;
		comma = accept(s, ',');
	}
	if (info->ndim == 1 && !comma)
		return err_set(s->err, ERR_INPUT,
		               "the shape (%" PRIu64 ") is not a tuple: expected (%" PRIu64 ",)",
		               info->shape[0], info->shape[0]);
	return 0;
}

static int parse_order(struct scan *s, bool *fortran)
{
	*fortran = accept_word(s, "True");
	if (!*fortran && !accept_word(s, "False"))
		return unexpected(s, "True or False for fortran_order");
	return 0;
}

enum key { KEY_DESCR, KEY_ORDER, KEY_SHAPE, KEYS };
static const char *const key_names[KEYS] = {
        [KEY_DESCR] = "descr", [KEY_ORDER] = "fortran_order", [KEY_SHAPE] = "shape"};

static int parse_key(struct scan *s, unsigned *seen, enum key *key)
{
	char buf[QUOTED];
	struct text t;
	if (scan_string(s, "a key", &t))
		return -1;
	for (int k = 0; k < KEYS; k++) {
		if (!is_text(t, key_names[k]))
			continue;
		if (*seen & 1u << k)
			return err_set(s->err, ERR_INPUT, "the header has %s twice",
			               quoted(t, buf));
		*seen |= 1u << k;
		*key = (enum key)k;
		return accept(s, ':') ? 0 : unexpected(s, "':'");
	}
	return err_set(s->err, ERR_INPUT,
	               "the header has the key %s: expected 'descr', 'fortran_order' and 'shape' "
	               "only",
	               quoted(t, buf));
}

/* { 'key': value, ... } in any order, with or without a comma after the last value, and nothing
 * after it. */
static int parse_dict(struct scan *s, enum dtype hint, struct array_info *info, bool *fortran)
{
	unsigned seen = 0;
	bool comma = true;
	enum key key = KEYS;
	if (!accept(s, '{'))
		return unexpected(s, "'{'");
	while (!accept(s, '}')) {
		if (!comma)
			return unexpected(s, "',' or '}'");
		if (parse_key(s, &seen, &key))
			return -1;
		if (key == KEY_DESCR   ? parse_descr(s, hint, info)
		    : key == KEY_ORDER ? parse_order(s, fortran)
		                       : parse_shape(s, info))
			return -1;
		comma = accept(s, ',');
	}
	for (int k = 0; k < KEYS; k++)
		if (!(seen & 1u << k))
			return err_set(s->err, ERR_INPUT, "the header lacks the key '%s'",
			               key_names[k]);
	skip_space(s);
	return s->p == s->end ? 0 : unexpected(s, "the header's end");
}

/* ---- the header ---- */

/* Read the lengths of the fixed part and of the text. 1: it needs *need bytes. */
static int parse_prefix(const unsigned char *b, size_t len, uint64_t file_size, size_t *prefix,
                        size_t *text, size_t *need, struct err *err)
{
	*need = PREFIX_V1;
	if (file_size < PREFIX_V1)
		return err_set(err, ERR_INPUT, "%" PRIu64 " bytes are too few for a .npy file",
		               file_size);
	if (len < PREFIX_V1)
		return 1;
	if (memcmp(b, MAGIC, MAGIC_BYTES) != 0)
		return err_set(err, ERR_INPUT,
		               "is not a .npy file: it does not begin with \\x93NUMPY");
	unsigned major = b[6], minor = b[7];
	if (major < 1 || major > 3 || minor != 0)
		return err_set(err, ERR_INPUT,
		               ".npy version %u.%u is not supported: expected 1.0, 2.0 or 3.0",
		               major, minor);
	*prefix = major == 1 ? PREFIX_V1 : PREFIX_V2;
	*need = *prefix;
	if (len < *prefix)
		return file_size < *prefix
		               ? err_set(err, ERR_INPUT, "the file ends inside its header")
		               : 1;
	*text = b[8] | (size_t)b[9] << 8;
	if (major > 1)
		*text |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
	if (*text > HEADER_MAX)
		return err_set(err, ERR_INPUT, "the header has %zu characters: the limit is %d",
		               *text, HEADER_MAX);
	*need = *prefix + *text;
	if (file_size < *need)
		return err_set(err, ERR_INPUT, "the file ends inside its header");
	return len < *need;
}

/* Fortran order differs from C order only if two dimensions are longer than one. */
static bool order_matters(const struct array_info *info)
{
	int longer = 0;
	for (int i = 0; i < info->ndim; i++)
		longer += info->shape[i] > 1;
	return longer > 1 && info->count > 0;
}

int npy_parse(const void *buf, size_t len, uint64_t file_size, enum dtype hint,
              struct array_info *info, size_t *need, struct err *err)
{
	size_t prefix = 0, text = 0;
	bool fortran = false;
	int r = parse_prefix(buf, len, file_size, &prefix, &text, need, err);
	if (r)
		return r;

	const char *start = (const char *)buf + prefix;
	struct scan s = {.start = start, .p = start, .end = start + text, .err = err};
	*info = (struct array_info){.format = &format_npy, .offset = *need};
	if (parse_dict(&s, hint, info, &fortran))
		return -1;
	if (array_count(info))
		return err_set(err, ERR_INPUT, "the shape is too large");
	info->fortran = fortran && order_matters(info);
	return array_check_size(info, file_size, err);
}

long npy_header(const struct array_info *info, char *buf, size_t cap)
{
	/* NULL: not in array files. Types without a name are written as numpy saves those of
	 * ml_dtypes, except f8e5m2, because numpy.load refuses its "<f1". */
	static const char *const descr[DTYPES] = {
	        [DTYPE_I8] = "|i1",     [DTYPE_I16] = "<i2",    [DTYPE_I32] = "<i4",
	        [DTYPE_I64] = "<i8",    [DTYPE_U8] = "|u1",     [DTYPE_U16] = "<u2",
	        [DTYPE_U32] = "<u4",    [DTYPE_U64] = "<u8",    [DTYPE_F16] = "<f2",
	        [DTYPE_F32] = "<f4",    [DTYPE_F64] = "<f8",    [DTYPE_BF16] = "<V2",
	        [DTYPE_F8E4M3] = "<V1", [DTYPE_F8E5M2] = "<V1", [DTYPE_BOOL] = "|b1",
	        [DTYPE_C64] = "<c8",    [DTYPE_C128] = "<c16",
	};
	char shape[ARRAY_SHAPE_TEXT], text[ARRAY_SHAPE_TEXT + 128];
	if (!descr[info->dtype])
		return -1;
	int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }",
	                 descr[info->dtype], info->fortran ? "True" : "False",
	                 array_shape_text(info, shape));
	size_t len = (size_t)n;
	size_t room = 0;
	if (info->ndim)
		room = GROWTH_DIGITS - (size_t)snprintf(NULL, 0, "%" PRIu64, info->shape[0]);
	size_t whole = PREFIX_V1 + len + room + 1;
	whole += (ALIGNMENT - whole % ALIGNMENT) % ALIGNMENT;
	if (whole > cap)
		return -1;

	size_t header = whole - PREFIX_V1;
	memcpy(buf, MAGIC "\x01\x00", 8);
	buf[8] = (char)(header & 0xff);
	buf[9] = (char)(header >> 8);
	memcpy(buf + PREFIX_V1, text, len);
	memset(buf + PREFIX_V1 + len, ' ', header - len - 1);
	buf[whole - 1] = '\n';
	return (long)whole;
}
