/*
 * Compares the tables (job_table) of two ranks page by page, up to the first entry that differs. No
 * I/O: the caller requests the page tables.page from both ranks, and passes their answers here. The
 * answers are not trusted. One thread.
 */
#ifndef COLLCTL_JOB_TABLES_H
#define COLLCTL_JOB_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

struct tables {
	int rank[2];        /* the owners of the tables */
	uint32_t page;      /* the next page */
	struct buf have[2]; /* each rank's page number `page` */
	bool came[2];       /* the page has arrived */
};

/* The first entry that differs, for messages: long texts are cut, control characters escaped. */
struct table_difference {
	enum {
		TABLE_DIFFERS,
		TABLE_MISSING,
		TABLE_EXTRA
	} kind; /* missing or extra in the first rank's table */
	char name[100];
	char value[80], other[80]; /* TABLE_DIFFERS: the first rank's; the second rank's */
};

enum tables_state {
	TABLES_BAD = -1, /* ERR_INTEGRITY of the rank: the page was not requested or is malformed;
	                    or ERR_RESOURCE */
	TABLES_WAIT,     /* for the other rank's page */
	TABLES_NEXT,     /* the pages are the same: request tables.page, the next one, from both */
	TABLES_SAME,     /* the tables are the same */
	TABLES_DIFFER,   /* *out has the entry */
};

void tables_begin(struct tables *, int first, int second);
/* Page @page of @rank's table has arrived. */
enum tables_state tables_take(struct tables *, int rank, uint32_t page, struct view entries,
                              struct table_difference *out, struct err *err);
void tables_release(struct tables *); /* idempotent */

#endif
