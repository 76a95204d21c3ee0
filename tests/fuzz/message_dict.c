/*
 * Prints the fuzzers' dictionary of control messages, in libFuzzer's form: for each table of fields
 * a valid message with the least values, and for each number the values at its bounds and beside
 * them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/fields.h"
#include "tests/fuzz/message_tables.h"

#define TOKEN_MAX 120 /* bytes that libFuzzer takes of an entry, about */

static void entry(const char *message, const char *field, const uint8_t *bytes, size_t len)
{
	printf("# %s %s\n\"", message, field);
	for (size_t i = 0; i < len; i++)
		printf("\\x%02X", bytes[i]);
	printf("\"\n");
}

static void number(const struct message *m, const struct message_field *f, uint64_t value)
{
	uint8_t bytes[8];
	put_u64(bytes, value);
	entry(m->name, f->name, bytes, (size_t)f->kind); /* a number's kind is its length */
}

int main(void)
{
	for (size_t i = 0; i < TABLES; i++) {
		const struct message *m = tables[i].message;
		void *least = calloc(1, m->size);
		struct buf b;
		if (!least)
			return 1;
		for (const struct message_field *f = m->fields; f->name; f++) {
			if (f->kind > WIRE_U64)
				continue;
			const uint64_t all =
			        f->kind == WIRE_U64 ? UINT64_MAX : (UINT64_C(1) << 8 * f->kind) - 1;
			const uint64_t most = f->most ? f->most : all;
			if (f->least) {
				number(m, f, f->least - 1);
				number(m, f, f->least);
			}
			number(m, f, most);
			if (most < all)
				number(m, f, most + 1);
			memcpy((uint8_t *)least + f->at, &f->least, f->size < 8 ? f->size : 8);
		}
		buf_init(&b, 1 << 20);
		message_put(m, least, &b);
		if (!b.failed && b.len <= TOKEN_MAX)
			entry(m->name, "with the least values", b.data, b.len);
		buf_release(&b);
		free(least);
	}
	return 0;
}
