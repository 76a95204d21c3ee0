#include "lib/store/store_value.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/evp.h>

#include "lib/base/json.h"

int store_value_decode(struct store_value *out, const char *text, size_t len, struct err *err)
{
	size_t pad = 0;

	if (len == 0)
		return 0;
	if (len % 4 != 0 || len / 4 > STORE_VALUE_MAX / 3 + 1)
		return err_set(err, ERR_RENDEZVOUS,
		               len % 4 ? "a value that is not base64"
		                       : "a value that is too large");
	while (pad < 2 && text[len - 1 - pad] == '=')
		pad++;
	unsigned char *data = err_malloc(len / 4 * 3 + 1, "the store's value", err);
	if (!data)
		return -1;
	int n = EVP_DecodeBlock(data, (const unsigned char *)text, (int)len);
	/* EVP_DecodeBlock skips blanks around the text; here they are not valid base64. */
	if (n < 0 || (size_t)n != len / 4 * 3 || (size_t)n - pad > STORE_VALUE_MAX) {
		free(data);
		return err_set(err, ERR_RENDEZVOUS, "a value that is not base64, or is too large");
	}
	out->len = (size_t)n - pad;
	data[out->len] = '\0'; /* for callers that print it */
	out->data = (char *)data;
	return 0;
}

static int take_value(struct store_value *out, const json_t *entry, struct err *err)
{
	const json_t *index = json_object_get(entry, "ModifyIndex");
	const json_t *value = json_object_get(entry, "Value");

	if (!json_is_integer(index) || json_integer_value(index) <= 0)
		return err_set(err, ERR_RENDEZVOUS, "an answer without ModifyIndex");
	if (!json_is_null(value) && !json_is_string(value))
		return err_set(err, ERR_RENDEZVOUS, "an answer without Value");
	out->index = (uint64_t)json_integer_value(index);
	if (json_is_null(value)) /* Consul writes an empty value as null */
		return 0;
	return store_value_decode(out, json_string_value(value), json_string_length(value), err);
}

int store_value_parse(struct store_value *out, const char *body, size_t len, struct err *err)
{
	json_error_t where;
	int ret = -1;

	*out = (struct store_value){0};
	json_forget_memory();
	json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &where);
	if (json_lacked_memory()) {
		json_decref(root);
		return err_nomem(err, "the store's answer", len);
	}
	if (!root)
		return err_set(err, ERR_RENDEZVOUS, "an answer that is not JSON");
	if (!json_is_array(root) || json_array_size(root) != 1)
		err_set(err, ERR_RENDEZVOUS, "an answer that is not an array of one entry");
	else
		ret = take_value(out, json_array_get(root, 0), err);
	if (ret < 0)
		*out = (struct store_value){0};
	json_decref(root);
	return ret;
}
