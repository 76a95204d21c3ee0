#include "lib/store/etcd_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lib/base/json.h"
#include "lib/base/private.h"
#include "lib/store/store_value.h"

#define TOKEN_MAX 900 /* bytes: it goes in a header */

/* A JSON object, or NULL and the error. */
static json_t *parse(const char *body, size_t len, struct err *err)
{
	json_error_t where;

	json_forget_memory();
	json_t *root = json_loadb(body, len, JSON_REJECT_DUPLICATES, &where);
	if (json_lacked_memory())
		err_nomem(err, "the store's answer", len);
	else if (!json_is_object(root))
		err_set(err, ERR_RENDEZVOUS, "an answer that is not a JSON object");
	else
		return root;
	json_decref(root);
	return NULL;
}

/* A number above 0; 0: there is none. */
static uint64_t number(const json_t *value)
{
	uint64_t n = 0;

	if (json_is_integer(value))
		return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
	if (!json_is_string(value))
		return 0;
	for (size_t i = 0; i < json_string_length(value); i++) {
		const char c = json_string_value(value)[i];
		if (c < '0' || c > '9' || n > (INT64_MAX - (uint64_t)(c - '0')) / 10)
			return 0;
		n = 10 * n + (uint64_t)(c - '0');
	}
	return n;
}

/* Any server can send JSON; only etcd sends a header with a revision. 0: there is none. */
static uint64_t revision_of(const json_t *answer)
{
	return number(json_object_get(json_object_get(answer, "header"), "revision"));
}

static int no_revision(struct err *err)
{
	return err_set(err, ERR_RENDEZVOUS, "an answer without header.revision; is this etcd?");
}

static int take_value(struct store_value *out, const json_t *kv, struct err *err)
{
	const json_t *value = json_object_get(kv, "value");

	out->index = number(json_object_get(kv, "mod_revision"));
	if (!out->index)
		return err_set(err, ERR_RENDEZVOUS, "an answer without mod_revision");
	if (!value) /* an empty one */
		return 0;
	if (!json_is_string(value))
		return err_set(err, ERR_RENDEZVOUS, "an answer whose value is not a string");
	return store_value_decode(out, json_string_value(value), json_string_length(value), err);
}

static int take_range(struct store_value *out, uint64_t *revision, const json_t *answer,
                      struct err *err)
{
	const json_t *kvs = json_object_get(answer, "kvs");

	*revision = revision_of(answer);
	if (!*revision)
		return no_revision(err);
	if (!kvs || (json_is_array(kvs) && json_array_size(kvs) == 0))
		return 0;
	if (!json_is_array(kvs) || json_array_size(kvs) != 1)
		return err_set(err, ERR_RENDEZVOUS, "an answer whose kvs are not an array of one");
	if (take_value(out, json_array_get(kvs, 0), err) < 0)
		return -1;
	if (out->index <= *revision)
		return 0;
	free(out->data);
	return err_set(err, ERR_RENDEZVOUS, "an answer whose mod_revision is above its revision");
}

int etcd_read_range(struct store_value *out, uint64_t *revision, const char *body, size_t len,
                    struct err *err)
{
	*out = (struct store_value){0};
	*revision = 0;
	json_t *answer = parse(body, len, err);
	if (!answer)
		return -1;
	int ret = take_range(out, revision, answer, err);
	if (ret < 0)
		*out = (struct store_value){0};
	json_decref(answer);
	return ret;
}

int etcd_read_txn(const char *body, size_t len, struct err *err)
{
	json_t *answer = parse(body, len, err);
	if (!answer)
		return -1;
	const json_t *succeeded = json_object_get(answer, "succeeded");
	int ret = json_is_true(succeeded);
	if (!revision_of(answer))
		ret = no_revision(err);
	else if (succeeded && !json_is_boolean(succeeded))
		ret = err_set(err, ERR_RENDEZVOUS,
		              "an answer whose field succeeded is not a boolean");
	json_decref(answer);
	return ret;
}

static bool is_token(const json_t *token)
{
	const char *text = json_string_value(token);
	size_t len = json_string_length(token);

	if (len == 0 || len > TOKEN_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return true;
}

int etcd_read_token(char **token, const char *body, size_t len, struct err *err)
{
	*token = NULL;
	json_t *answer = parse(body, len, err);
	if (!answer)
		return -1;
	json_t *value = json_object_get(answer, "token");
	if (!is_token(value)) {
		json_decref(answer);
		return err_set(err, ERR_RENDEZVOUS, "an answer without a token");
	}
	*token = err_strdup(json_string_value(value), "the store's token", err);
	/* jansson's copy */
	wipe((char *)(uintptr_t)json_string_value(value), json_string_length(value));
	json_decref(answer);
	return *token ? 0 : -1;
}

/* Of the first line; 0: it is no plain text. */
static size_t line_length(const char *body, size_t len)
{
	size_t n = 0;

	while (n < len && n < sizeof((struct etcd_error *)0)->text && body[n] && body[n] != '\n')
		n++;
	return len && body[0] == '<' ? 0 : n;
}

void etcd_read_error(struct etcd_error *e, const char *body, size_t len)
{
	struct err ignored = {0};
	json_t *answer = parse(body, len, &ignored);
	const json_t *text = json_object_get(answer, "message");

	*e = (struct etcd_error){0};
	if (!json_is_string(text))
		text = json_object_get(answer, "error");
	const uint64_t code = number(json_object_get(answer, "code"));
	if (code <= ETCD_UNAUTHENTICATED)
		e->code = (int)code;
	if (json_is_string(text))
		snprintf(e->text, sizeof e->text, "%s", json_string_value(text));
	else if (!answer)
		snprintf(e->text, sizeof e->text, "%.*s", (int)line_length(body, len), body);
	for (char *c = e->text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	json_decref(answer);
}

/* Is it the news that a watch was created, and no more? */
static bool is_creation(const json_t *result, uint64_t revision)
{
	return json_is_true(json_object_get(result, "created")) &&
	       !json_is_true(json_object_get(result, "canceled")) &&
	       !json_object_get(result, "events") && revision_of(result) >= revision;
}

bool etcd_watch_woke(const char *body, size_t len, uint64_t revision)
{
	struct err ignored = {0};
	const char *newline = memchr(body, '\n', len);

	if (!newline) /* the first line has not come yet */
		return false;
	/* Anything after it, so that the line is parsed once, however the rest comes. */
	if (newline + 1 < body + len)
		return true;
	json_t *first = parse(body, (size_t)(newline - body), &ignored);
	const bool created = is_creation(json_object_get(first, "result"), revision);
	json_decref(first);
	return !created;
}
