#include "lib/base/fields.h"

#include <string.h>

#include "lib/base/host_name.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they are");

int malformed(struct err *err, const char *message, const char *field)
{
	return err_set(err, ERR_INTEGRITY, "a malformed %s message (%s)", message, field);
}

/* How many structs of its part @f has. */
static int parts(const struct message_field *f, const void *thing)
{
	return f->kind == WIRE_PART ? 1 : *(const int *)((const char *)thing + f[-1].at);
}

void message_put(const struct message *m, const void *thing, struct buf *b)
{
	for (const struct message_field *f = m->fields; f->name; f++) {
		const char *member = (const char *)thing + f->at;
		const struct view *span = (const void *)member;
		switch (f->kind) {
		case WIRE_TEXT:
		case WIRE_HOST:
			buf_put_str(b, member);
			break;
		case WIRE_BYTES:
			buf_put(b, member, f->size);
			break;
		case WIRE_SPAN:
			buf_put_u32(b, (uint32_t)view_left(span));
			buf_put(b, span->p, view_left(span));
			break;
		case WIRE_PART:
		case WIRE_LIST:
			for (int i = 0; i < parts(f, thing); i++)
				message_put(f->part, member + (size_t)i * f->part->size, b);
			break;
		default:
			buf_put(b, member, f->kind);
		}
	}
}

static void get_number(const struct message_field *f, void *member, struct view *v)
{
	const uint8_t *p = view_bytes(v, f->kind);
	uint64_t x = 0;
	if (p)
		memcpy(&x, p, f->kind);
	if ((x < f->least || (f->most && x > f->most)) && !(f->none && x == UINT32_MAX))
		v->failed = true;
	if (!v->failed)
		memcpy(member, &x, f->size);
}

static void get_span(const struct message_field *f, struct view *span, struct view *v)
{
	const uint32_t n = view_u32(v);
	v->failed |= f->most && n > f->most;
	const uint8_t *p = view_bytes(v, n);
	if (p)
		*span = view_of(p, n);
}

static int get_fields(const struct message *m, const char *name, void *thing, struct view *v,
                      struct err *err)
{
	for (const struct message_field *f = m->fields; f->name; f++) {
		char *member = (char *)thing + f->at;
		const uint8_t *p;
		switch (f->kind) {
		case WIRE_TEXT:
			view_str(v, member, f->size);
			break;
		case WIRE_HOST:
			if (host_name_get(v, member, err) < 0)
				return -1;
			break;
		case WIRE_BYTES:
			p = view_bytes(v, f->size);
			if (p)
				memcpy(member, p, f->size);
			break;
		case WIRE_SPAN:
			get_span(f, (void *)member, v);
			break;
		case WIRE_PART:
		case WIRE_LIST:
			for (int i = 0; i < parts(f, thing); i++)
				if (get_fields(f->part, name, member + (size_t)i * f->part->size, v,
				               err) < 0)
					return -1;
			break;
		default:
			get_number(f, member, v);
		}
		if (v->failed || (f->fits && !f->fits(member)))
			return malformed(err, name, f->name);
	}
	return 0;
}

int message_get(const struct message *m, void *thing, struct view *v, struct err *err)
{
	memset(thing, 0, m->size);
	return get_fields(m, m->name, thing, v, err);
}

int message_get_all(const struct message *m, void *thing, struct view v, struct err *err)
{
	if (message_get(m, thing, &v, err) < 0)
		return -1;
	return view_left(&v) ? malformed(err, m->name, "its end") : 0;
}
