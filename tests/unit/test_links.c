/* Links that failed: what both ends say of them becomes one sentence. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/job/failed_links.h"
#include "tests/unit/unit.h"

static const char *host(void *ctx, int rank, char *buf, size_t cap)
{
	(void)ctx;
	snprintf(buf, cap, "h%d", rank);
	return buf;
}

static struct link_faults faults;

static void add(int reporter, int from, int to, const char *why)
{
	struct err err = {0};
	assert_int_equal(links_add(&faults, reporter, from, to, LINK_BROKEN, why, &err), 0);
}

static void says(size_t cap, const char *want)
{
	char text[640];
	links_text(&faults, host, NULL, text, cap);
	assert_string_equal(text, want);
	links_release(&faults);
}

TEST(one_link)
{
	add(1, 1, 3, "refused");
	says(640, "1 link failed: refused: rank 1 (h1) -> rank 3 (h3)");
}

TEST(the_dialler_s_word_counts)
{
	add(3, 1, 3, "no connection");
	add(1, 1, 3, "refused");
	add(3, 1, 3, "no connection");
	says(640, "1 link failed: refused: rank 1 (h1) -> rank 3 (h3)");
}

TEST(both_directions_and_causes)
{
	add(3, 3, 1, "no answer");
	add(0, 0, 2, "refused");
	add(1, 1, 3, "no answer");
	add(2, 2, 3, "no answer");
	add(2, 2, 0, "no route");
	says(640, "5 links failed: refused: rank 0 (h0) -> rank 2 (h2); "
	          "no answer: rank 1 (h1) <-> rank 3 (h3), rank 2 (h2) -> rank 3 (h3); "
	          "no route: rank 2 (h2) -> rank 0 (h0)");
}

TEST(what_does_not_fit_is_counted)
{
	for (int r = 1; r < 9; r++)
		add(r, r, 0, "refused");
	says(90, "8 links failed: refused: rank 1 (h1) -> rank 0 (h0), and 7 more");
	for (int r = 0; r < LINKS_MAX + 10; r++)
		add(r, r, r + 1, "refused");
	assert_int_equal(faults.n, LINKS_MAX);
	assert_int_equal(faults.more, 10);
	char text[640];
	links_text(&faults, host, NULL, text, sizeof text);
	assert_non_null(strstr(text, "1034 links failed: "));
	assert_true(strlen(text) < sizeof text);
	links_release(&faults);
}

static struct view view_all(const struct buf *b)
{
	return view_of(b->data, b->len);
}

TEST(over_the_wire)
{
	struct buf b;
	struct err err = {0};
	buf_init(&b, 4096);
	link_encode(1, 2, LINK_REFUSED, "refused", &b);
	link_encode(0, 1, LINK_TIMED_OUT, "no connection", &b);
	assert_int_equal(links_decode(&faults, 1, 3, view_all(&b), &err), 0);
	assert_int_equal(links_decode(&faults, 2, 3, view_all(&b), &err), -1); /* not its link */
	assert_int_equal(err.code, ERR_INTEGRITY);
	says(640, "2 links failed: no connection: rank 0 (h0) -> rank 1 (h1); "
	          "refused: rank 1 (h1) -> rank 2 (h2)");
	for (size_t n = 1; n < b.len; n++) { /* cut anywhere but between two */
		err = (struct err){0};
		int ret = links_decode(&faults, 1, 3, view_of(b.data, n), &err);
		assert_int_equal(ret, n == 8 + 1 + 2 + strlen("refused") ? 0 : -1);
	}
	buf_release(&b);
	links_release(&faults);
}

TEST(reasons_of_handshakes)
{
	static const struct {
		int code, system;
		const char *text;
		enum link_state state;
		const char *why;
	} of[] = {
	        {ERR_AUTH, 0, "the secrets differ: do this", LINK_TLS, "TLS: the secrets differ"},
	        {ERR_AUTH, 0, "the peer does not use TLS: why", LINK_TLS,
	         "the peer does not use TLS"},
	        {ERR_INTEGRITY, 0, "the TLS handshake failed: bad", LINK_TLS,
	         "the TLS handshake failed: bad"},
	        {ERR_PEER_LOST, 0, "the connection was closed", LINK_BROKEN,
	         "the connection was closed"},
	        {ERR_PEER_LOST, ECONNREFUSED, "connect: refused", LINK_REFUSED, "connect: refused"},
	};
	for (size_t i = 0; i < LENGTH(of); i++) {
		struct err err = {.code = of[i].code, .system = of[i].system};
		char why[LINK_WHY];
		snprintf(err.text, sizeof err.text, "%s", of[i].text);
		assert_int_equal(link_state_of_handshake(&err, why), of[i].state);
		assert_string_equal(why, of[i].why);
	}
	struct err err = {.code = ERR_INTEGRITY}; /* longer than a reason */
	char why[LINK_WHY];
	memset(err.text, 'x', sizeof err.text - 1);
	assert_int_equal(link_state_of_handshake(&err, why), LINK_TLS);
	assert_true(strlen(why) < LINK_WHY);
	assert_string_equal(link_state_words(LINK_TLS), "TLS");
}

int main(void)
{
	return unit_run(NULL, NULL);
}
