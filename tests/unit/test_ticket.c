/* The ticket of `collctl invite`. */
#include <stdio.h>
#include <string.h>

#include "lib/crypto/crypto.h"
#include "lib/job/ticket.h"
#include "tests/unit/unit.h"

static void draw(struct ticket *t, int naddresses)
{
	struct err err = ERR_INIT;
	*t = (struct ticket){
	        .size = 4, .port = 7766, .expires = 4000000000u, .naddresses = naddresses};
	assert_int_equal(crypto_begin(&err), 0);
	assert_int_equal(ticket_draw(t, &err), 0);
	for (int i = 0; i < naddresses; i++)
		snprintf(t->addresses[i], ADDR_TEXT, i % 2 ? "2001:db8::%d" : "192.0.2.%d", i);
}

TEST(what_is_encoded_is_decoded)
{
	struct err err = ERR_INIT;
	char text[TICKET_TEXT], loud[TICKET_TEXT + 8];
	struct ticket t, got;
	for (int n = 1; n <= TICKET_ADDRESSES; n++) {
		draw(&t, n);
		ticket_encode(&t, text);
		assert_int_equal(strncmp(text, "cc1-", 4), 0);
		assert_int_equal(ticket_decode(&got, text, &err), 0);
		assert_memory_equal(&got, &t, sizeof t);
		snprintf(loud, sizeof loud, " %s\r\n", text);
		for (char *c = loud; *c; c++)
			*c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
		assert_int_equal(ticket_decode(&got, loud, &err), 0);
		assert_memory_equal(&got, &t, sizeof t);
	}
}

TEST(the_longest_fits)
{
	struct err err = ERR_INIT;
	char text[TICKET_TEXT];
	struct ticket t, got;
	draw(&t, TICKET_ADDRESSES);
	t.size = TICKET_SIZE_MAX;
	for (int i = 0; i < TICKET_ADDRESSES; i++)
		memset(t.addresses[i], 'h', ADDR_TEXT - 1);
	ticket_encode(&t, text);
	assert_int_equal(ticket_decode(&got, text, &err), 0);
	assert_memory_equal(&got, &t, sizeof t);
}

/* The text of a ticket never gets into a message. */
static void refuse(const char *text, const char *words)
{
	struct err err = ERR_INIT;
	struct ticket t;
	assert_int_equal(ticket_decode(&t, text, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	if (!strstr(err.text, words))
		fail_msg("'%s' is refused with '%s'", text, err.text);
	if (strlen(text) > 12)
		assert_null(strstr(err.text, text + 4));
	for (size_t i = 0; i < sizeof t; i++)
		assert_int_equal(((const char *)&t)[i], 0);
}

TEST(what_is_not_one_is_refused)
{
	char text[TICKET_TEXT];
	struct ticket t;
	draw(&t, 2);
	ticket_encode(&t, text);
	refuse("", "does not begin with cc1-");
	refuse("cc-aaaa", "does not begin with cc1-");
	refuse("cc", "does not begin with cc1-");
	refuse("cc2-aaaa", "is of another version of collctl");
	refuse(" CC10-aaaa ", "is of another version of collctl");
	refuse("cc1-", "too few");
	refuse("cc1-aaaa aaaa", "characters that no ticket has");
	refuse("cc1-aaaaaaaaaaaaaaaaaaaaaaaa", "mistyped");
	for (size_t n = strlen(text) - 1; n > 12; n--) { /* cut at any place */
		char cut[TICKET_TEXT];
		snprintf(cut, n + 1, "%s", text);
		refuse(cut, "");
	}
	for (size_t i = 4; i + 1 < strlen(text); i++) { /* any other letter */
		char wrong[TICKET_TEXT];
		strcpy(wrong, text);
		wrong[i] = wrong[i] == 'a' ? 'b' : 'a';
		refuse(wrong, "mistyped");
	}
	memset(text + 4, 'a', sizeof text - 5);
	text[sizeof text - 1] = '\0';
	refuse(text, "");
}

/* With a right check, the fields are not trusted. */
TEST(fields_that_lie_are_refused)
{
	char text[TICKET_TEXT];
	struct ticket t;
	draw(&t, 1);
	t.size = 0;
	ticket_encode(&t, text);
	refuse(text, "another version");
	draw(&t, 1);
	t.port = 0;
	ticket_encode(&t, text);
	refuse(text, "another version");
	draw(&t, 1);
	t.naddresses = 0;
	ticket_encode(&t, text);
	refuse(text, "another version");
	for (const char *const *host = (const char *const[]){"a/b", "a@b", "a b", "", NULL}; *host;
	     host++) {
		draw(&t, 1);
		strcpy(t.addresses[0], *host);
		ticket_encode(&t, text);
		refuse(text, "another version");
	}
}

TEST(the_secret_and_the_token_differ_and_follow_from_the_key)
{
	struct err err = ERR_INIT;
	struct secret a, b, other;
	char token[TICKET_TOKEN], hex[TICKET_TOKEN], job[TICKET_JOB];
	struct ticket t, u;
	draw(&t, 1);
	draw(&u, 1);
	assert_int_equal(ticket_secret(&t, &a, &err), 0);
	assert_int_equal(ticket_secret(&t, &b, &err), 0);
	assert_int_equal(ticket_secret(&u, &other, &err), 0);
	assert_memory_equal(&a, &b, sizeof a);
	assert_memory_not_equal(&a, &other, sizeof a);
	assert_int_equal(ticket_token(&t, token, &err), 0);
	for (size_t i = 0; i < SECRET_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", a.key[i]);
	assert_string_not_equal(token, hex);
	ticket_job(&t, job);
	assert_int_equal(strlen(job), TICKET_JOB - 1);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
