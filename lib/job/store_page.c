/*
 * Large answers to GET. A client may take ten seconds to read its answer, or never read it, and a
 * full store is tens of megabytes as JSON. Clients with the same query therefore share the bytes,
 * and all large answers together have a limit, beyond which the answer is 503. Small answers, such
 * as a job's record, are never refused.
 */
#include "lib/job/store_server_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/evp.h>

#include "lib/base/buf.h"

#define PAGES_MAX  ((size_t)96 << 20) /* bytes of all pages: two of a full store, as JSON */
#define PAGE_SMALL ((size_t)4 << 10)  /* not shared below this size */
#define ENTRY_JSON 256                /* bytes of an entry's JSON besides its key and value */

struct page {
	struct page *next, **prev;
	struct MHD_Response *response;
	size_t bytes;
	int users;
	enum page_kind kind;
	uint64_t index;
	char key[];
};

static void put_number(struct buf *b, const char *name, uint64_t n)
{
	char text[64];

	snprintf(text, sizeof text, "\"%s\":%llu", name, (unsigned long long)n);
	buf_put_text(b, text);
}

static void put_string(struct buf *b, const char *s)
{
	json_t *json = json_string(s);
	char *text = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

	if (text)
		buf_put_text(b, text);
	else
		b->failed = true;
	free(text);
	json_decref(json);
}

static void put_base64(struct buf *b, const char *data, size_t len)
{
	if (len == 0) { /* as Consul writes it */
		buf_put_text(b, "null");
		return;
	}
	buf_put(b, "\"", 1);
	uint8_t *to = buf_room(b, 4 * (len / 3 + 1) + 1);
	if (to)
		b->len += (size_t)EVP_EncodeBlock(to, (const unsigned char *)data, (int)len);
	buf_put(b, "\"", 1);
}

static void put_entry(struct buf *b, const struct kv_entry *e)
{
	buf_put_text(b, "{");
	put_number(b, "LockIndex", e->lock);
	buf_put_text(b, ",\"Key\":");
	put_string(b, e->key);
	buf_put_text(b, ",");
	put_number(b, "Flags", e->flags);
	buf_put_text(b, ",\"Value\":");
	put_base64(b, e->data, e->len);
	buf_put_text(b, ",");
	put_number(b, "CreateIndex", e->create);
	buf_put_text(b, ",");
	put_number(b, "ModifyIndex", e->modify);
	if (e->session[0]) {
		buf_put_text(b, ",\"Session\":");
		put_string(b, e->session);
	}
	buf_put_text(b, "}");
}

/* The approximate length of the answer; exact if no key has to be escaped. */
static size_t estimate(struct kv_entry *const *entries, size_t n, enum page_kind kind)
{
	size_t bytes = 2;

	for (size_t i = 0; i < n; i++) {
		const struct kv_entry *e = entries[i];
		if (kind == PAGE_RAW)
			bytes += e->len;
		else if (kind == PAGE_KEYS)
			bytes += strlen(e->key) + 3;
		else
			bytes += strlen(e->key) + 4 * (e->len / 3 + 1) + ENTRY_JSON;
	}
	return bytes;
}

static void write_page(struct buf *b, struct kv_entry *const *entries, size_t n,
                       enum page_kind kind)
{
	if (kind == PAGE_RAW) {
		buf_put(b, entries[0]->data, entries[0]->len);
		return;
	}
	buf_put_text(b, "[");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_put_text(b, ",");
		if (kind == PAGE_KEYS)
			put_string(b, entries[i]->key);
		else
			put_entry(b, entries[i]);
	}
	buf_put_text(b, "]");
}

static struct page *find(const struct store_server *s, enum page_kind kind, const char *key,
                         uint64_t index)
{
	struct page *p = s->pages;

	while (p && (p->kind != kind || p->index != index || strcmp(p->key, key) != 0))
		p = p->next;
	return p;
}

/* A page without users; NULL: no memory. */
static struct page *make(struct store_server *s, enum page_kind kind, const char *key,
                         struct kv_entry *const *entries, size_t n, uint64_t index)
{
	struct page *p = calloc(1, sizeof *p + strlen(key) + 1);
	struct buf b;

	if (!p)
		return NULL;
	buf_init(&b, 2 * PAGES_MAX);
	write_page(&b, entries, n, kind);
	uint8_t *fits = b.failed || !b.len ? b.data : realloc(b.data, b.len);
	if (fits)
		b.data = fits;
	if (!b.failed)
		p->response = mhd.create_response_from_buffer(b.len, b.data, MHD_RESPMEM_MUST_FREE);
	if (!p->response) {
		buf_release(&b);
		free(p);
		return NULL;
	}
	store_add_headers(p->response,
	                  kind == PAGE_RAW ? "application/octet-stream" : "application/json",
	                  index);
	p->bytes = b.len;
	p->kind = kind;
	p->index = index;
	strcpy(p->key, key);
	p->next = s->pages;
	p->prev = &s->pages;
	if (p->next)
		p->next->prev = &p->next;
	s->pages = p;
	s->page_bytes += p->bytes;
	return p;
}

static void drop(struct store_server *s, struct page *p)
{
	*p->prev = p->next;
	if (p->next)
		p->next->prev = p->prev;
	s->page_bytes -= p->bytes;
	mhd.destroy_response(p->response); /* freed when the last connection has sent it */
	free(p);
}

struct MHD_Response *store_page(struct request *r, enum page_kind kind, const char *key,
                                struct kv_entry *const *entries, size_t n, uint64_t index,
                                bool *full)
{
	struct store_server *s = r->server;
	struct page *p = find(s, kind, key, index);
	size_t bytes = p ? 0 : estimate(entries, n, kind);

	*full = !p && bytes > PAGE_SMALL && s->page_bytes + bytes > PAGES_MAX;
	if (!p && !*full)
		p = make(s, kind, key, entries, n, index);
	if (!p)
		return NULL;
	p->users++;
	r->page = p;
	return p->response;
}

void store_page_release(struct request *r)
{
	struct page *p = r->page;

	r->page = NULL;
	if (p && --p->users == 0)
		drop(r->server, p);
}
