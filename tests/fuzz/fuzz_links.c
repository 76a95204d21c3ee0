/*
 * What ranks tell each other in `check`: reports of links, and the frames of a measurement. The
 * first byte says how many ranks there are and whose report it is.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/links/link_matrix.h"
#include "lib/links/meter.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int two_a_host[] = {0, 0, 2, 2, 4, 4, 6, 6};

static void check_matrix(const struct link_matrix *m)
{
	struct link_finding found[8];
	size_t n = link_matrix_findings(m, found, 8);
	for (size_t i = 0; i < n && i < 8; i++) {
		CHECK(found[i].from >= 0 && found[i].from < m->size);
		CHECK(found[i].to >= -1 && found[i].to < m->size && found[i].to != found[i].from);
		CHECK(!found[i].hosts || m->home[found[i].from] == found[i].from);
	}
	CHECK(isfinite(m->median) && isfinite(m->rate));
	CHECK(isfinite(m->connect) && isfinite(m->handshake));
	for (int i = 0; i < m->size * m->size; i++) {
		const struct link_cell *c = &m->cells[i];
		CHECK(c->state < LINK_STATES && link_state_words(c->state));
		CHECK(isfinite(c->least) && isfinite(c->median) && isfinite(c->rate));
		CHECK(isfinite(c->connect) && isfinite(c->handshake));
		CHECK(c->state == LINK_WORKS || i / m->size != i % m->size);
	}
}

static void take_report(struct view report, int ranks, int rank, const int *home)
{
	struct link_matrix m;
	struct err err = {0};
	if (link_matrix_init(&m, ranks, &err) == 0) {
		if (link_matrix_take(&m, rank, report, &err) < 0)
			CHECK(err.code == ERR_INTEGRITY || err.code == ERR_RESOURCE);
		if (link_matrix_end(&m, home, &err) == 0)
			check_matrix(&m);
	}
	link_matrix_release(&m);
}

static void take_frame(const uint8_t bytes[METER_FRAME])
{
	struct meter_frame f;
	uint8_t back[METER_FRAME];
	if (meter_decode(&f, bytes) < 0)
		return;
	CHECK(f.type >= METER_PING && f.type <= METER_RESULT);
	CHECK(f.type != METER_DATA_FOLLOWS || (f.a && f.a <= METER_DATA));
	meter_encode(&f, back);
	CHECK(memcmp(back, bytes, METER_FRAME) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const int ranks = (data[0] & 7) + 1, rank = (data[0] >> 3) % ranks;
	take_report(view_of(data + 1, size - 1), ranks, rank, NULL);
	take_report(view_of(data + 1, size - 1), ranks, rank, two_a_host);
	for (size_t at = 1; at + METER_FRAME <= size; at += METER_FRAME)
		take_frame(data + at);
	return 0;
}
