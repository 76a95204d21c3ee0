/* What a terminal shows. See terminal.h. */
#include "cmd/text/terminal.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "lib/base/text.h"

#define ELLIPSIS     "…"
#define COLUMNS_MOST 10000

/* ---- terminals ---- */

int terminal_width(int fd)
{
	const char *given = getenv("COLUMNS");
	struct winsize size;
	long columns;

	if (ioctl(fd, TIOCGWINSZ, &size) < 0)
		return 0;
	columns = size.ws_col ? size.ws_col : given ? strtol(given, NULL, 10) : 0;
	return columns > 0 && columns < COLUMNS_MOST ? (int)columns : 0;
}

bool terminal_can_draw(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

static bool has_colours(int fd)
{
	const char *refused = getenv("NO_COLOR");

	return !(refused && *refused) && terminal_can_draw(fd);
}

const char *terminal_begin(int fd, enum terminal_style style)
{
	static const char *const begin[] = {
	        [TERMINAL_PLAIN] = "",
	        [TERMINAL_ERROR] = "\033[1;31m",
	        [TERMINAL_BAD] = "\033[31m",
	        [TERMINAL_CHOSEN] = "\033[1m",
	};

	return style != TERMINAL_PLAIN && has_colours(fd) ? begin[style] : "";
}

const char *terminal_end(int fd, enum terminal_style style)
{
	return *terminal_begin(fd, style) ? "\033[0m" : "";
}

/* ---- characters ---- */

/* wcwidth uses the thread's locale, which may be C. Only this function changes it. */
static int columns_of(uint32_t c)
{
	static locale_t utf8;
	locale_t before;
	int columns;

	if (c < 0x80)
		return 1;
	if (!utf8)
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (!utf8)
		return 1;
	before = uselocale(utf8);
	columns = wcwidth((wchar_t)c);
	uselocale(before);
	return columns < 0 ? 1 : columns;
}

/* The bytes of the character at @s, and its columns. A byte that is no character has one. */
static size_t next_char(const char *s, int *columns)
{
	uint32_t c = 0;
	const size_t n = text_char(s, &c);

	*columns = n ? columns_of(c) : 1;
	return n ? n : 1;
}

/* ---- texts ---- */

int terminal_columns(const char *text)
{
	int sum = 0, columns;

	for (; *text; sum += columns)
		text += next_char(text, &columns);
	return sum;
}

/* The bytes of the longest beginning of @text that has at most @columns, and less than @cap bytes.
 */
static size_t beginning(const char *text, int columns, size_t cap)
{
	size_t at = 0, n;
	int wide;

	for (; text[at]; at += n, columns -= wide) {
		n = next_char(text + at, &wide);
		if (wide > columns || at + n >= cap)
			break;
	}
	return at;
}

char *terminal_cut(char *text, int columns)
{
	text[beginning(text, columns, SIZE_MAX)] = '\0';
	return text;
}

/* The longest end of @text that has at most @columns; it does not begin with a character that
 * combines with the one before it. */
static const char *ending(const char *text, int columns)
{
	int left = terminal_columns(text), wide;

	while (*text) {
		const size_t n = next_char(text, &wide);

		if (left <= columns && wide > 0)
			break;
		left -= wide;
		text += n;
	}
	return text;
}

char *terminal_shorten(char *dst, size_t cap, const char *src, int columns)
{
	const bool whole = terminal_columns(src) <= columns;
	const char *end = whole ? "" : ending(src, (columns - 1) / 2);
	const size_t tail = whole ? 0 : strlen(ELLIPSIS) + strlen(end);
	size_t at;

	if (!cap)
		return dst;
	if (tail >= cap) { /* no room for the end */
		dst[0] = '\0';
		return dst;
	}
	at = beginning(src, whole ? columns : columns - 1 - (columns - 1) / 2, cap - tail);
	memcpy(dst, src, at);
	dst[at] = '\0';
	if (!whole)
		strcpy(stpcpy(dst + at, ELLIPSIS), end);
	return dst;
}

void terminal_wrap(FILE *f, const char *text, int column, int width,
                   void (*put)(FILE *f, const char *word, int len))
{
	for (int at = column; *text;) {
		char word[512];
		const int len = (int)strcspn(text, " ");

		snprintf(word, sizeof word, "%.*s", len, text);
		const int columns = terminal_columns(word);
		if (at > column && width && at + 1 + columns > width) {
			fprintf(f, "\n%*s", column, "");
			at = column;
		} else if (at > column) {
			fputc(' ', f);
			at++;
		}
		if (put)
			put(f, text, len);
		else
			fputs(word, f);
		at += columns;
		text += len;
		text += strspn(text, " ");
	}
}
