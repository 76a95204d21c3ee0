/* Outputs with the format and layout of a dataset. */
#include <string.h>

#include "lib/data/files/outfile.h"
#include "lib/data/files/sink_internal.h"

/* The output has the input's format, which may come from another rank. */
int sink_check_format(const char *path, const struct format *hint, const struct format *want,
                      struct err *err)
{
	const struct format *format;
	char endings[FORMAT_ENDINGS];
	if (!hint && strcmp(path, "-") == 0)
		return 0;
	if (outfile_check_kind(path, err) < 0 || format_of(path, hint, &format, err) < 0)
		return -1;
	if (format == want)
		return 0;
	if (hint)
		return err_set(err, ERR_USAGE, "%s: the output has the input's format: --format %s",
		               path, want->name);
	return err_set(err, ERR_USAGE, "%s: the output has the input's format: end its name in %s",
	               path, format_endings(want, endings));
}

int sink_add_like(struct sink *s, const char *path, const struct format *hint,
                  const struct dataset *like, struct place *places, struct err *err)
{
	const struct format *format = like->format, *named;
	char endings[FORMAT_ENDINGS];
	if (format->written) {
		format = format->written;
		if (strcmp(path, "-") != 0 &&
		    (format_of(path, NULL, &named, NULL) < 0 || named != format))
			return err_set(err, ERR_USAGE,
			               "%s: the tensors of a %s file are written as %s: end its "
			               "name in %s, or give --max-shard-size for a folder",
			               path, like->format->name, format->name,
			               format_endings(format, endings));
		hint = NULL;
	}
	if (like->sharded)
		return format->lay_out(s, path, like, places, err);
	if (!format_is_array(format) && (path_is_folder(path) || path_is_index(path)))
		return err_set(err, ERR_USAGE,
		               "%s: is the name of a sharded set, but the input is one file: end "
		               "the output's name in %s",
		               path, format_endings(format, endings));
	if (sink_check_format(path, hint, format, err) < 0)
		return -1;
	return format->lay_out(s, path, like, places, err);
}
