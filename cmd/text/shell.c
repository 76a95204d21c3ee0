#include "cmd/text/shell.h"

#include <stdbool.h>
#include <string.h>

/* {rank} is one word for every shell; {a,b} and {1..9} are several for most. */
static bool is_plain(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                            "_-+=./:,@%{}";
	return *word && !word[strspn(word, plain)] &&
	       !(strchr(word, '{') && (strchr(word, ',') || strstr(word, "..")));
}

void shell_print_word(FILE *f, const char *word)
{
	if (is_plain(word)) {
		fprintf(f, " %s", word);
		return;
	}
	fputs(" '", f);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", f);
		else
			fputc(*word, f);
	fputc('\'', f);
}
