#include "lib/base/host_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define OTHERS  "._-"
#define BEFORE  "host" /* a name that would begin with another character */

static bool is_letter(char c)
{
	return c && strchr(LETTERS, c);
}

void host_name_make(char name[HOST_NAME], const char *text)
{
	snprintf(name, HOST_NAME, "%s%s", is_letter(*text) ? "" : BEFORE, text);
	for (char *p = name; *p; p++)
		if (!strchr(LETTERS OTHERS, *p))
			*p = '_';
}

void host_name_own(char name[HOST_NAME])
{
	char text[256] = "";
	if (gethostname(text, sizeof text - 1) < 0)
		text[0] = '\0';
	host_name_make(name, text);
}

bool host_name_is_right(const char *name)
{
	return is_letter(*name) && strlen(name) < HOST_NAME && !name[strspn(name, LETTERS OTHERS)];
}

bool host_name_or_address(const char *text)
{
	return !text[strspn(text, LETTERS OTHERS ":%[]")];
}

int host_name_get(struct view *v, char name[HOST_NAME], struct err *err)
{
	char text[256];
	*name = '\0';
	view_str(v, text, sizeof text);
	if (v->failed || !*text)
		return 0;
	if (!host_name_is_right(text))
		return err_set(err, ERR_DISAGREE,
		               "'%s' is no name of a host: expected at most %d letters, digits, "
		               "'.', '_' and '-', of which the first is a letter or a digit",
		               text, HOST_NAME - 1);
	strcpy(name, text);
	return 0;
}
