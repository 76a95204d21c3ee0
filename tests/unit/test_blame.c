/* Which of two pieces of evidence counts (lib/job/coordinator/blame.h). */
#include "lib/job/coordinator/blame.h"
#include "tests/unit/unit.h"

static struct evidence of(enum evidence_kind kind, int code, int rank)
{
	return (struct evidence){.kind = kind, .err = {.code = code, .rank = rank}};
}

/* From the weakest to the strongest. */
TEST(each_kind_has_its_weight)
{
	const struct evidence order[] = {
	        of(EVIDENCE_NONE, 0, -1),
	        of(EVIDENCE_REPORT, ERR_PEER_LOST, 1),
	        of(EVIDENCE_SILENCE, ERR_STALLED, 2),
	        of(EVIDENCE_REPORT, ERR_INTEGRITY, 3),
	        of(EVIDENCE_LOST, ERR_PEER_LOST, 4),
	        of(EVIDENCE_OWN_WORD, ERR_OUTPUT, 5),
	};
	const int n = LENGTH(order);
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			assert_ptr_equal(blame(&order[a], &order[b]), &order[b > a ? b : a]);
}

TEST(among_equals_the_first_stays)
{
	const struct evidence pairs[][2] = {
	        {of(EVIDENCE_REPORT, ERR_PEER_LOST, 1), of(EVIDENCE_REPORT, ERR_STALLED, 2)},
	        {of(EVIDENCE_REPORT, ERR_STALLED, 1), of(EVIDENCE_REPORT, ERR_PEER_LOST, 2)},
	        {of(EVIDENCE_REPORT, ERR_STALLED, 1), of(EVIDENCE_REPORT, ERR_STALLED, 2)},
	        {of(EVIDENCE_REPORT, ERR_INTEGRITY, 1), of(EVIDENCE_REPORT, ERR_INTEGRITY, 2)},
	        {of(EVIDENCE_LOST, ERR_PEER_LOST, 1), of(EVIDENCE_LOST, ERR_INTEGRITY, 2)},
	        {of(EVIDENCE_OWN_WORD, ERR_INPUT, 1), of(EVIDENCE_OWN_WORD, ERR_OUTPUT, 2)},
	};
	for (size_t i = 0; i < LENGTH(pairs); i++)
		assert_ptr_equal(blame(&pairs[i][0], &pairs[i][1]), &pairs[i][0]);
}

/* Of ranks at which nothing moves, who gets no acknowledgement sees the link, and who has waited
 * for longest is nearest to it. */
TEST(who_is_nearest_counts)
{
	struct evidence order[] = {
	        of(EVIDENCE_REPORT, ERR_STALLED, 1),
	        of(EVIDENCE_REPORT, ERR_STALLED, 2),
	        of(EVIDENCE_REPORT, ERR_STALLED, 3),
	};
	order[0].still_ms = 2000;
	order[1].still_ms = 2500;
	order[2].still_ms = 1500;
	order[2].unanswered = true;
	for (size_t a = 0; a < 3; a++)
		for (size_t b = a + 1; b < 3; b++) {
			assert_ptr_equal(blame(&order[a], &order[b]), &order[b]);
			assert_ptr_equal(blame(&order[b], &order[a]), &order[b]);
		}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
