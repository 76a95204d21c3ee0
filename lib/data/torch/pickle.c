#include "lib/data/torch/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"

#define PROTOCOL_MOST 5
#define ITEMS_MAX     (1u << 30)
#define FIELDS_MAX    64  /* of a class: far more than it has */
#define NAME_TEXT     160 /* of a global in a message */

/* The opcodes that are read, by CPython's names. */
enum opcode {
	OP_MARK = '(',
	OP_STOP = '.',
	OP_POP = '0',
	OP_POP_MARK = '1',
	OP_DUP = '2',
	OP_BINBYTES = 'B',
	OP_SHORT_BINBYTES = 'C',
	OP_BINFLOAT = 'G',
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_BININT2 = 'M',
	OP_NONE = 'N',
	OP_BINPERSID = 'Q',
	OP_REDUCE = 'R',
	OP_BINSTRING = 'T',
	OP_SHORT_BINSTRING = 'U',
	OP_BINUNICODE = 'X',
	OP_EMPTY_LIST = ']',
	OP_APPEND = 'a',
	OP_BUILD = 'b',
	OP_GLOBAL = 'c',
	OP_DICT = 'd',
	OP_APPENDS = 'e',
	OP_BINGET = 'h',
	OP_LONG_BINGET = 'j',
	OP_LIST = 'l',
	OP_BINPUT = 'q',
	OP_LONG_BINPUT = 'r',
	OP_SETITEM = 's',
	OP_TUPLE = 't',
	OP_SETITEMS = 'u',
	OP_EMPTY_DICT = '}',
	OP_EMPTY_TUPLE = ')',
	OP_PROTO = 0x80,
	OP_NEWOBJ = 0x81,
	OP_TUPLE1 = 0x85,
	OP_TUPLE2 = 0x86,
	OP_TUPLE3 = 0x87,
	OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89,
	OP_LONG1 = 0x8a,
	OP_LONG4 = 0x8b,
	OP_SHORT_BINUNICODE = 0x8c,
	OP_BINUNICODE8 = 0x8d,
	OP_BINBYTES8 = 0x8e,
	OP_EMPTY_SET = 0x8f,
	OP_ADDITEMS = 0x90,
	OP_FROZENSET = 0x91,
	OP_NEWOBJ_EX = 0x92,
	OP_STACK_GLOBAL = 0x93,
	OP_MEMOIZE = 0x94,
	OP_FRAME = 0x95,
	OP_BYTEARRAY8 = 0x96,
};

/* Pointers to values; a mark on the stack is NULL. */
struct values {
	struct pickle_value **v;
	size_t n, cap;
};

struct machine {
	struct view in;
	const uint8_t *begins;
	struct pool pool;
	struct values stack, memo;
	bool (*permits)(const struct pickle_global *);
	struct err *err;
};

static const struct pickle_value nothing = {.kind = PICKLE_NONE};

/* ---- memory ---- */

static void *keep(struct machine *m, size_t bytes)
{
	return pool_alloc(&m->pool, bytes, "a pickle", m->err);
}

static int push(struct machine *m, struct values *to, struct pickle_value *v)
{
	if (to->n == to->cap) {
		const size_t cap = to->cap ? 2 * to->cap : 64;
		struct pickle_value **grown =
		        err_realloc(to->v, cap, sizeof *grown, "a pickle", m->err);
		if (!grown)
			return -1;
		to->v = grown;
		to->cap = cap;
	}
	to->v[to->n++] = v;
	return 0;
}

static int malformed(struct machine *m, const char *what)
{
	return err_set(m->err, ERR_INPUT, "its pickle is malformed at byte %zu: %s",
	               (size_t)(m->in.p - m->begins), what);
}

static int underflow(struct machine *m)
{
	return malformed(m, "it takes a value that is not there");
}

/* Push a copy of @v. */
static int push_new(struct machine *m, struct pickle_value v)
{
	struct pickle_value *kept = keep(m, sizeof *kept);
	if (!kept)
		return -1;
	*kept = v;
	return push(m, &m->stack, kept);
}

/* The value on top, removed; NULL: there is none, or a mark. */
static struct pickle_value *pop(struct machine *m)
{
	return m->stack.n ? m->stack.v[--m->stack.n] : NULL;
}

static struct pickle_value *top(struct machine *m)
{
	return m->stack.n ? m->stack.v[m->stack.n - 1] : NULL;
}

/* Remove the values down to the mark, and the mark: they lie at the returned place until the next
 * push, *n of them. NULL: there is no mark. */
static struct pickle_value **pop_mark(struct machine *m, size_t *n)
{
	size_t at = m->stack.n;
	while (at && m->stack.v[at - 1])
		at--;
	if (!at)
		return NULL;
	*n = m->stack.n - at;
	m->stack.n = at - 1;
	return m->stack.v + at;
}

/* ---- values ---- */

/* Push a sequence of the @n values. */
static int push_items(struct machine *m, enum pickle_kind kind, struct pickle_value **items,
                      size_t n)
{
	const struct pickle_value **kept = NULL;
	size_t room = 1; /* a power of two, as append expects */
	if (n > ITEMS_MAX)
		return malformed(m, "a sequence of too many values");
	while (room < n)
		room *= 2;
	if (n && !(kept = keep(m, room * sizeof *kept)))
		return -1;
	for (size_t i = 0; i < n; i++)
		kept[i] = items[i];
	return push_new(m, (struct pickle_value){.kind = kind, .n = (uint32_t)n, .items = kept});
}

static int push_marked(struct machine *m, enum pickle_kind kind)
{
	size_t n;
	struct pickle_value **items = pop_mark(m, &n);
	if (!items || (kind == PICKLE_DICT && n % 2))
		return underflow(m);
	return push_items(m, kind, items, n);
}

static int push_tuple(struct machine *m, size_t n)
{
	if (m->stack.n < n)
		return underflow(m);
	m->stack.n -= n;
	for (size_t i = 0; i < n; i++)
		if (!m->stack.v[m->stack.n + i])
			return underflow(m);
	return push_items(m, PICKLE_TUPLE, m->stack.v + m->stack.n, n);
}

/* Append the @n values to the list, the dict or the content of the record @to. The array of items
 * doubles at each power of two. */
static int append(struct machine *m, struct pickle_value *to, enum pickle_kind kind,
                  struct pickle_value **items, size_t n)
{
	if (to && to->kind == PICKLE_RECORD) {
		to = &to->record->content;
		if (to->kind == PICKLE_NONE)
			to->kind = kind;
	}
	if (!to || to->kind != kind)
		return malformed(m, "values for what has none");
	if (n > ITEMS_MAX - to->n)
		return malformed(m, "a sequence of too many values");
	for (size_t i = 0; i < n; i++) {
		if ((to->n & (to->n - 1)) == 0) { /* 0 or a power of two: all room is used */
			const struct pickle_value **grown =
			        keep(m, (to->n ? 2 * (size_t)to->n : 1) * sizeof *grown);
			if (!grown)
				return -1;
			if (to->n)
				memcpy(grown, to->items, to->n * sizeof *grown);
			to->items = grown;
		}
		to->items[to->n++] = items[i];
	}
	return 0;
}

static int append_marked(struct machine *m, enum pickle_kind kind)
{
	size_t n;
	struct pickle_value **items = pop_mark(m, &n);
	if (!items || (kind == PICKLE_DICT && n % 2))
		return underflow(m);
	return append(m, top(m), kind, items, n);
}

static int append_last(struct machine *m, enum pickle_kind kind, size_t n)
{
	if (m->stack.n < n + 1)
		return underflow(m);
	m->stack.n -= n;
	for (size_t i = 0; i < n; i++)
		if (!m->stack.v[m->stack.n + i])
			return underflow(m);
	return append(m, top(m), kind, m->stack.v + m->stack.n, n);
}

/* An integer of @n bytes, little-endian, two's complement. */
static int push_long(struct machine *m, size_t n)
{
	const uint8_t *p = view_bytes(&m->in, n);
	uint64_t bits = 0;
	if (!p)
		return malformed(m, "it ends in an integer");
	if (n > 8)
		return push_new(m, (struct pickle_value){.kind = PICKLE_LARGE});
	for (size_t i = 0; i < 8; i++)
		bits |= (uint64_t)(i < n ? p[i] : n && p[n - 1] & 0x80 ? 0xff : 0) << 8 * i;
	return push_new(m, (struct pickle_value){.kind = PICKLE_INT, .number = (int64_t)bits});
}

static int push_int(struct machine *m, int64_t number)
{
	return push_new(m, (struct pickle_value){.kind = PICKLE_INT, .number = number});
}

static int push_float(struct machine *m)
{
	uint64_t bits = __builtin_bswap64(view_u64(&m->in)); /* big-endian */
	struct pickle_value v = {.kind = PICKLE_FLOAT};
	memcpy(&v.real, &bits, sizeof v.real);
	return push_new(m, v);
}

static int push_text(struct machine *m, enum pickle_kind kind, uint64_t n)
{
	if (n > view_left(&m->in) || n > UINT32_MAX)
		return malformed(m, "it ends in a text");
	const uint8_t *p = view_bytes(&m->in, (size_t)n);
	return push_new(
	        m, (struct pickle_value){.kind = kind, .n = (uint32_t)n, .text = (const char *)p});
}

/* ---- globals and records ---- */

static int push_global(struct machine *m, const char *module, size_t module_len, const char *name,
                       size_t name_len)
{
	struct pickle_global *g = keep(m, sizeof *g);
	if (!g)
		return -1;
	*g = (struct pickle_global){(uint32_t)module_len, (uint32_t)name_len, module, name};
	if (!m->permits(g)) {
		char text[NAME_TEXT], plain[NAME_TEXT];
		snprintf(text, sizeof text, "%.*s.%.*s", (int)(module_len < 100 ? module_len : 100),
		         module, (int)(name_len < 50 ? name_len : 50), name);
		text_escape(plain, sizeof plain, text);
		return err_set(m->err, ERR_INPUT,
		               "its pickle names '%s', which is no part of tensors and plain "
		               "values; nothing of it was run: save its tensors alone, by "
		               "torch.save(model.state_dict(), ...) or safetensors",
		               plain);
	}
	return push_new(m, (struct pickle_value){.kind = PICKLE_GLOBAL, .global = g});
}

/* A line of the pickle, without its end. */
static const char *line(struct machine *m, size_t *len)
{
	const uint8_t *p = m->in.p, *end = memchr(p, '\n', view_left(&m->in));
	if (!end)
		return NULL;
	*len = (size_t)(end - p);
	view_bytes(&m->in, *len + 1);
	return (const char *)p;
}

static int read_global(struct machine *m)
{
	size_t module_len, name_len;
	const char *module = line(m, &module_len), *name = module ? line(m, &name_len) : NULL;
	if (!name)
		return malformed(m, "it ends in a name");
	return push_global(m, module, module_len, name, name_len);
}

static int stack_global(struct machine *m)
{
	const struct pickle_value *name = pop(m), *module = pop(m);
	if (!name || !module || name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT)
		return malformed(m, "a global without a name");
	return push_global(m, module->text, module->n, name->text, name->n);
}

static int push_record(struct machine *m, enum pickle_kind kind,
                       const struct pickle_value *callable, const struct pickle_value *arguments)
{
	struct pickle_record *r = keep(m, sizeof *r);
	if (!r)
		return -1;
	*r = (struct pickle_record){.callable = callable, .arguments = arguments};
	return push_new(m, (struct pickle_value){.kind = kind, .record = r});
}

/* @keywords: there is a dict of arguments by name, too. */
static int reduce(struct machine *m, bool keywords)
{
	if (keywords && !pop(m))
		return underflow(m);
	const struct pickle_value *arguments = pop(m), *callable = pop(m);
	if (!arguments || !callable)
		return underflow(m);
	if (callable->kind != PICKLE_GLOBAL || arguments->kind != PICKLE_TUPLE)
		return malformed(m, "a call of what is no global");
	return push_record(m, PICKLE_RECORD, callable, arguments);
}

static int build(struct machine *m)
{
	struct pickle_value *state = pop(m), *of = top(m);
	if (!state || !of)
		return underflow(m);
	if (of->kind != PICKLE_RECORD)
		return malformed(m, "a state of what has none");
	of->record->state = state;
	return 0;
}

/* ---- the memo ---- */

static int put(struct machine *m, uint64_t index)
{
	struct pickle_value *v = top(m);
	/* Python numbers them from 0, and each takes at least a byte of the pickle. */
	if (!v || index > (uint64_t)(m->in.p - m->begins))
		return malformed(m, "a memo that is out of bounds");
	while (m->memo.n <= index)
		if (push(m, &m->memo, NULL))
			return -1;
	m->memo.v[index] = v;
	return 0;
}

static int get(struct machine *m, uint64_t index)
{
	if (index >= m->memo.n || !m->memo.v[index])
		return malformed(m, "a memo that nothing was put into");
	return push(m, &m->stack, m->memo.v[index]);
}

/* ---- the interpreter ---- */

static int pop_one(struct machine *m)
{
	if (!m->stack.n)
		return underflow(m);
	m->stack.n--;
	return 0;
}

static int drop_marked(struct machine *m)
{
	size_t n;
	return pop_mark(m, &n) ? 0 : underflow(m);
}

static int duplicate(struct machine *m)
{
	return top(m) ? push(m, &m->stack, top(m)) : underflow(m);
}

static int persistent(struct machine *m)
{
	const struct pickle_value *id = pop(m);
	return id ? push_record(m, PICKLE_FOREIGN, NULL, id) : underflow(m);
}

static int protocol(struct machine *m)
{
	const unsigned n = view_u8(&m->in);
	return n >= 2 && n <= PROTOCOL_MOST
	               ? 0
	               : err_set(m->err, ERR_INPUT, "its pickle has protocol %u: expected 2 to %d",
	                         n, PROTOCOL_MOST);
}

static int step(struct machine *m, enum opcode op)
{
	struct view *in = &m->in;
	switch (op) {
	case OP_PROTO:
		return protocol(m);
	case OP_FRAME:
		view_u64(in);
		return 0;
	case OP_MARK:
		return push(m, &m->stack, NULL);
	case OP_POP:
		return pop_one(m);
	case OP_POP_MARK:
		return drop_marked(m);
	case OP_DUP:
		return duplicate(m);
	case OP_NONE:
		return push_new(m, nothing);
	case OP_NEWTRUE:
	case OP_NEWFALSE:
		return push_new(
		        m, (struct pickle_value){.kind = PICKLE_BOOL, .number = op == OP_NEWTRUE});
	case OP_BININT:
		return push_int(m, (int32_t)view_u32(in));
	case OP_BININT1:
		return push_int(m, view_u8(in));
	case OP_BININT2:
		return push_int(m, view_u16(in));
	case OP_LONG1:
		return push_long(m, view_u8(in));
	case OP_LONG4:
		return push_long(m, view_u32(in));
	case OP_BINFLOAT:
		return push_float(m);
	case OP_BINSTRING:
		return push_text(m, PICKLE_BYTES, view_u32(in));
	case OP_SHORT_BINSTRING:
		return push_text(m, PICKLE_BYTES, view_u8(in));
	case OP_BINBYTES:
		return push_text(m, PICKLE_BYTES, view_u32(in));
	case OP_SHORT_BINBYTES:
		return push_text(m, PICKLE_BYTES, view_u8(in));
	case OP_BINBYTES8:
	case OP_BYTEARRAY8:
		return push_text(m, PICKLE_BYTES, view_u64(in));
	case OP_BINUNICODE:
		return push_text(m, PICKLE_TEXT, view_u32(in));
	case OP_SHORT_BINUNICODE:
		return push_text(m, PICKLE_TEXT, view_u8(in));
	case OP_BINUNICODE8:
		return push_text(m, PICKLE_TEXT, view_u64(in));
	case OP_EMPTY_LIST:
		return push_items(m, PICKLE_LIST, NULL, 0);
	case OP_LIST:
		return push_marked(m, PICKLE_LIST);
	case OP_APPEND:
		return append_last(m, PICKLE_LIST, 1);
	case OP_APPENDS:
		return append_marked(m, PICKLE_LIST);
	case OP_EMPTY_TUPLE:
		return push_items(m, PICKLE_TUPLE, NULL, 0);
	case OP_TUPLE:
		return push_marked(m, PICKLE_TUPLE);
	case OP_TUPLE1:
	case OP_TUPLE2:
	case OP_TUPLE3:
		return push_tuple(m, (size_t)(op - OP_TUPLE1) + 1);
	case OP_EMPTY_DICT:
		return push_items(m, PICKLE_DICT, NULL, 0);
	case OP_DICT:
		return push_marked(m, PICKLE_DICT);
	case OP_SETITEM:
		return append_last(m, PICKLE_DICT, 2);
	case OP_SETITEMS:
		return append_marked(m, PICKLE_DICT);
	case OP_EMPTY_SET:
		return push_items(m, PICKLE_SET, NULL, 0);
	case OP_FROZENSET:
		return push_marked(m, PICKLE_SET);
	case OP_ADDITEMS:
		return append_marked(m, PICKLE_SET);
	case OP_BINPUT:
		return put(m, view_u8(in));
	case OP_LONG_BINPUT:
		return put(m, view_u32(in));
	case OP_MEMOIZE:
		return put(m, m->memo.n);
	case OP_BINGET:
		return get(m, view_u8(in));
	case OP_LONG_BINGET:
		return get(m, view_u32(in));
	case OP_GLOBAL:
		return read_global(m);
	case OP_STACK_GLOBAL:
		return stack_global(m);
	case OP_REDUCE:
	case OP_NEWOBJ:
		return reduce(m, false);
	case OP_NEWOBJ_EX:
		return reduce(m, true);
	case OP_BUILD:
		return build(m);
	case OP_BINPERSID:
		return persistent(m);
	default:
		return err_set(m->err, ERR_INPUT,
		               "its pickle has the opcode 0x%02x at byte %zu, which is not read",
		               (unsigned)op, (size_t)(in->p - m->begins) - 1);
	}
}

/* The value when STOP has come. */
static int run(struct machine *m)
{
	while (view_left(&m->in)) {
		const enum opcode op = (enum opcode)view_u8(&m->in);
		if (op == OP_STOP)
			return m->stack.n == 1 && m->stack.v[0]
			               ? 0
			               : malformed(m, "its end leaves not one value");
		if (step(m, op))
			return -1;
		if (m->in.failed)
			break;
	}
	return err_set(m->err, ERR_INPUT, "its pickle ends early");
}

int pickle_read(struct pickle *p, const void *bytes, size_t len,
                bool (*permits)(const struct pickle_global *), struct err *err)
{
	struct machine m = {
	        .in = view_of(bytes, len), .begins = bytes, .permits = permits, .err = err};
	int ret = run(&m);
	*p = (struct pickle){0};
	if (ret == 0 && view_left(&m.in))
		ret = err_set(err, ERR_INPUT, "%zu bytes follow its pickle", view_left(&m.in));
	if (ret == 0)
		*p = (struct pickle){m.stack.v[0], m.pool};
	else
		pool_release(&m.pool);
	free(m.stack.v);
	free(m.memo.v);
	return ret;
}

void pickle_release(struct pickle *p)
{
	pool_release(&p->pool);
	p->root = NULL;
}

bool pickle_is_text(const struct pickle_value *v, const char *text)
{
	return v && v->kind == PICKLE_TEXT && v->n == strlen(text) &&
	       memcmp(v->text, text, v->n) == 0;
}

bool pickle_is_global(const struct pickle_value *v, const char *module, const char *name)
{
	const struct pickle_global *g = v && v->kind == PICKLE_GLOBAL ? v->global : NULL;
	return g && g->module_len == strlen(module) && g->name_len == strlen(name) &&
	       memcmp(g->module, module, g->module_len) == 0 &&
	       memcmp(g->name, name, g->name_len) == 0;
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
	if (dict && dict->kind == PICKLE_DICT)
		for (uint32_t i = dict->n; i > 0; i -= 2)
			if (pickle_is_text(dict->items[i - 2], key))
				return dict->items[i - 1];
	return NULL;
}

bool pickle_is_record(const struct pickle_value *v, const char *name)
{
	const struct pickle_value *callable =
	        v && v->kind == PICKLE_RECORD ? v->record->callable : NULL;
	return callable && callable->global->name_len == strlen(name) &&
	       memcmp(callable->global->name, name, callable->global->name_len) == 0;
}

const struct pickle_value *pickle_fields(const struct pickle_value *state)
{
	return state && state->kind == PICKLE_DICT && state->n <= 2 * FIELDS_MAX ? state : NULL;
}

bool pickle_number(const struct pickle_value *v, uint64_t *number)
{
	if (!v || v->kind != PICKLE_INT || v->number < 0)
		return false;
	*number = (uint64_t)v->number;
	return true;
}
