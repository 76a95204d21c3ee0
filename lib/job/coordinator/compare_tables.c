/* To name the entry on which the ranks disagree, fetch the tables of two ranks, page by page. */
#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"

void coord_stop_comparing(struct coord *c)
{
	c->comparison.on = false;
	coord_set_timer(c, TIMER_COMPARE, COORD_NEVER);
	tables_release(&c->comparison.tables);
}

void coord_compare_over(void *ctx)
{
	struct coord *c = ctx;
	coord_fail(c, &c->comparison.disagreement.err, c->comparison.phase);
}

/* The page of the coordinator's own rank needs no message. */
static void take_own_page(struct coord *c)
{
	const struct job_callbacks *callbacks = c->conf.callbacks;
	struct buf b;
	buf_init(&b, TABLE_PAGE_MAX);
	if (callbacks->table)
		callbacks->table(callbacks->ctx, c->comparison.tables.page, &b);
	if (b.failed)
		coord_fail(c, &c->comparison.disagreement.err, c->comparison.phase);
	else
		coord_take_page(c, c->self, c->comparison.tables.page,
		                b.len ? view_of(b.data, b.len) : view_of("", 0));
	buf_release(&b);
}

static void ask_pages(struct coord *c)
{
	const int *rank = c->comparison.tables.rank;
	struct buf b;
	uint8_t memory[4];
	buf_init_fixed(&b, memory, sizeof memory);
	buf_put_u32(&b, c->comparison.tables.page);
	for (int side = 0; side < 2; side++)
		if (rank[side] != c->self)
			coord_send(&c->members[rank[side]], MSG_ASK, &b);
	buf_release(&b);
	if (rank[0] == c->self || rank[1] == c->self)
		take_own_page(c);
}

void coord_take_page(struct coord *c, int rank, uint32_t page, struct view entries)
{
	struct table_difference entry;
	struct err e = {0};
	switch (tables_take(&c->comparison.tables, rank, page, entries, &entry, &e)) {
	case TABLES_WAIT:
		return;
	case TABLES_NEXT:
		ask_pages(c);
		return;
	case TABLES_DIFFER:
		disagreement_name(&c->comparison.disagreement, c->conf.callbacks->noun, &entry, &e);
		coord_stop_comparing(c);
		break;
	case TABLES_SAME:
		e = c->comparison.disagreement.err;
		break;
	case TABLES_BAD:
		if (e.rank == ERR_RANK_SELF)
			e.rank = c->self;
		break;
	}
	coord_fail(c, &e, c->comparison.phase);
}

void coord_disagree(struct coord *c, enum phase phase)
{
	const struct disagreement *d = &c->comparison.disagreement;
	int64_t until = clock_ns() + c->conf.settings->timeout;
	c->comparison.phase = phase;
	if (d->with < 0) {
		coord_fail(c, &d->err, phase);
		return;
	}
	if (c->stage == STAGE_JOIN) {
		coord_set_timer(c, TIMER_JOIN, COORD_NEVER);
		if (until > c->conf.join_deadline)
			until = c->conf.join_deadline;
	}
	c->comparison.on = true;
	tables_begin(&c->comparison.tables, d->err.rank, d->with);
	coord_set_timer(c, TIMER_COMPARE, until);
	ask_pages(c);
}
