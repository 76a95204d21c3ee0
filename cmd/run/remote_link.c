/* What the two ends of `run -H` say to each other (remote.h): pure functions of bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/run/remote.h"
#include "lib/base/private.h"
#include "lib/base/version.h"

#define NAME "\ncollctl-remote-"

int remote_write_hello(const struct remote_hello *h, char *text, size_t cap)
{
	return snprintf(text, cap, NAME "%d %s %s %d %s\n", REMOTE_LINK, h->version, h->address,
	                h->port, h->token);
}

static bool is_token(const char *text)
{
	return strcmp(text, "-") == 0 ||
	       (strlen(text) == SECRET_TEXT - 2 && !text[strspn(text, "0123456789abcdef")]);
}

/* An address in numbers, as sshd gives it, perhaps with a zone. It becomes a part of a URL. */
static bool is_address(const char *text)
{
	const char *zone = text + strspn(text, "0123456789abcdefABCDEF.:");
	if (strcmp(text, "-") == 0)
		return true;
	for (const char *c = *zone == '%' ? zone + 1 : zone; *c; c++)
		if (*zone != '%' || !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		                            "0123456789._-",
		                            *c))
			return false;
	return zone > text;
}

_Static_assert(sizeof((struct remote_hello *)0)->version == 32 &&
                       sizeof((struct remote_hello *)0)->address == 128 &&
                       sizeof((struct remote_hello *)0)->token == 66,
               "the widths in parse");

/* False: it is no hello. *link: its version. */
static bool parse(const char *line, struct remote_hello *h, int *link)
{
	char number[4], port[6];
	*h = (struct remote_hello){0};
	const int n = sscanf(line, NAME "%3[0-9] %31s %127s %5[0-9] %65s", number, h->version,
	                     h->address, port, h->token);
	*link = n > 0 ? atoi(number) : 0;
	if (n > 1 && *link != REMOTE_LINK)
		return true;
	if (n == 5)
		h->port = atoi(port);
	return n == 5 && h->port <= 65535 && is_address(h->address) && is_token(h->token);
}

int remote_find_hello(const char *text, size_t len, struct remote_hello *h, char *why, size_t cap)
{
	char line[512];
	int link;
	const char *at = memmem(text, len, NAME, sizeof NAME - 1);
	const char *end = at ? memchr(at + 1, '\n', len - (size_t)(at + 1 - text)) : NULL;
	*h = (struct remote_hello){0};
	if (!end)
		return 0;
	snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
	*why = '\0';
	if (!parse(line, h, &link))
		snprintf(why, cap, "an unknown answer");
	else if (strcmp(h->version, COLLCTL_VERSION) != 0)
		snprintf(why, cap,
		         "has collctl %s, this is %s: install the same version, or give --copy",
		         h->version, COLLCTL_VERSION);
	else if (link != REMOTE_LINK)
		snprintf(why, cap,
		         "has another build of collctl %s: install the same, or give --copy",
		         h->version);
	wipe(line, sizeof line);
	if (!*why)
		return 1;
	wipe_text(h->token);
	return -1;
}

int64_t remote_every(int64_t silence)
{
	return silence / 4 < REMOTE_EVERY ? silence / 4 : REMOTE_EVERY;
}

size_t remote_stuff(const char *bytes, size_t n, char *out)
{
	size_t len = 0;
	for (size_t i = 0; i < n; i++) {
		if (!bytes[i])
			out[len++] = '\0';
		out[len++] = bytes[i];
	}
	return len;
}

size_t remote_extract(struct remote_reader *r, char *bytes, size_t n, remote_heard *heard,
                      void *ctx)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		const char c = bytes[i];
		if (r->have == 0 && c) {
			bytes[kept++] = c;
		} else if (r->have == 0) {
			r->have = 1;
		} else if (r->have == 1 && !c) {
			bytes[kept++] = '\0';
			r->have = 0;
		} else if (r->have == 1) {
			r->what = (uint8_t)c;
			r->have = 2;
		} else {
			r->have = 0;
			heard(ctx, r->what, (uint8_t)c);
		}
	}
	return kept;
}
