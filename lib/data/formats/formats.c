#include "lib/data/formats/format.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define FORMAT(name) extern const struct format format_##name;
#include "lib/data/formats/format_rows.h"
#undef FORMAT

#define FORMAT(name) &format_##name,
const struct format *const formats[] = {
#include "lib/data/formats/format_rows.h"
};
#undef FORMAT
const size_t formats_len = sizeof formats / sizeof *formats;

#define FORMAT(name) "|" #name
const char format_choices[] =
#include "lib/data/formats/format_rows.h"
        ;
#undef FORMAT

/* Files of these formats are refused, with the reason. */
static const struct {
	const char *suffix, *why;
} refused[] = {
        {".distcp", "holds pieces of a distributed checkpoint: name its folder"},
        {".gguf",
         "holds quantised blocks, which cannot be reduced: start from the original weights"},
};

const struct format *format_by_name(const char *name)
{
	for (size_t i = 0; name && i < formats_len; i++)
		if (strcmp(name, formats[i]->name) == 0)
			return formats[i];
	return NULL;
}

const struct format *format_by_number(unsigned number)
{
	for (size_t i = 0; i < formats_len; i++)
		if (formats[i]->number == number)
			return formats[i];
	return NULL;
}

/* ---- by file name ---- */

static bool has_suffix(const char *path, const char *suffix)
{
	size_t n = strlen(path), m = strlen(suffix);
	return n > m && strcasecmp(path + n - m, suffix) == 0;
}

static bool has_index(const char *path, const struct format *f)
{
	return f->index && has_suffix(path, f->index);
}

bool path_is_index(const char *path)
{
	for (size_t i = 0; i < formats_len; i++)
		if (has_index(path, formats[i]))
			return true;
	return false;
}

bool path_is_folder(const char *path)
{
	struct stat st;
	size_t n = strlen(path);
	return (n && path[n - 1] == '/') || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static const struct format *by_suffix(const char *path)
{
	for (size_t i = 0; i < formats_len; i++) {
		if (has_index(path, formats[i]))
			return formats[i];
		for (int k = 0; formats[i]->suffixes[k]; k++)
			if (has_suffix(path, formats[i]->suffixes[k]))
				return formats[i];
	}
	return NULL;
}

static const struct format *of_sets(void)
{
	for (size_t i = 0; i < formats_len; i++)
		if (formats[i]->index)
			return formats[i];
	return NULL;
}

static int unknown(const char *path, struct err *err)
{
	char endings[256] = "", one[FORMAT_ENDINGS];
	size_t n = 0;
	for (size_t i = 0; i < formats_len && n < sizeof endings; i++)
		if (formats[i]->suffixes[0])
			n += (size_t)snprintf(endings + n, sizeof endings - n, "%s, ",
			                      format_endings(formats[i], one));
	return err_set(err, ERR_USAGE, "%s: unknown format: expected %sa folder, or --format %s",
	               path, endings, format_choices + 1);
}

const char *format_refusal(const char *path)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (has_suffix(path, refused[i].suffix))
			return refused[i].why;
	return NULL;
}

int format_of(const char *path, const struct format *hint, const struct format **out,
              struct err *err)
{
	const char *why = hint ? NULL : format_refusal(path);
	*out = hint;
	if (why)
		return err_set(err, ERR_USAGE, "%s: %s", path, why);
	if (!*out)
		*out = by_suffix(path);
	if (!*out && path_is_folder(path))
		*out = of_sets();
	return *out ? 0 : unknown(path, err);
}

char *format_endings(const struct format *f, char buf[FORMAT_ENDINGS])
{
	size_t n = 0;
	buf[0] = '\0';
	for (int k = 0; f->suffixes[k] && n < FORMAT_ENDINGS; k++)
		n += (size_t)snprintf(buf + n, FORMAT_ENDINGS - n, "%s%s", k ? " or " : "",
		                      f->suffixes[k]);
	return buf;
}
