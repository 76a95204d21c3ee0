/* Hostile records in the store: what is taken has its fields, and without the secret none is. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/store/record.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct secret secret = {.key = "not in the corpus"};
	const struct record_of secure = {"collctl/job", "job", &secret};
	const struct record_of insecure = {"collctl/job", "job", NULL};
	struct record rec, again;
	char why[200] = "";
	struct err err = {0};
	int ret = record_decode(&secure, (const char *)data, size, &rec, why, sizeof why, &err);

	CHECK(ret == 0 && why[0]);
	why[0] = '\0';
	ret = record_decode(&insecure, (const char *)data, size, &rec, why, sizeof why, &err);
	CHECK(ret == 1 || (ret == 0 && why[0]));
	if (ret == 0)
		return 0;
	CHECK(strlen(rec.addr) < sizeof rec.addr && strlen(rec.nonce) < sizeof rec.nonce);
	CHECK(!rec.mac[0]);
	char *text = record_encode(&insecure, &rec, &err);
	CHECK(text);
	CHECK(record_decode(&insecure, text, strlen(text), &again, why, sizeof why, &err) == 1);
	CHECK(strcmp(again.addr, rec.addr) == 0);
	free(text);
	return 0;
}
