/* Prints the links that `check` measured: as text, as JSON, as a picture. */
#ifndef COLLCTL_CMD_TEXT_CHECK_PRINT_H
#define COLLCTL_CMD_TEXT_CHECK_PRINT_H

#include <jansson.h>

#include "lib/links/link_matrix.h"

struct check_view {
	const struct link_matrix *links;
	/* The host of a rank of the job; "": all are on one, or not known. */
	const char *(*host)(void *ctx, int rank);
	void *ctx;
	bool insecure;
	int64_t time;       /* ns that each bandwidth was measured for */
	const char *absent; /* as in struct check_request */
};

/* Print the findings (link_matrix.h), a line each; then a table: for up to 16 ranks of numbers, for
 * more a character per link. */
void check_print_text(const struct check_view *);
/* Members "median", "links", "findings" and "absent" of the command's object. NULL: out of memory.
 */
json_t *check_json(const struct check_view *);

/* Draw a self-contained SVG: two heat maps, of bandwidth and of round trips. Malloced, *len bytes;
 * NULL: out of memory. */
char *check_svg(const struct check_view *, size_t *len);

#endif
