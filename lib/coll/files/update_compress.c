/*
 * --update without --delta: are the pieces that are sent compressed? They are coded before, and
 * decoded after the transfer, so it takes a network that is slow enough. Its rate is known if the
 * planner knows that of a port (network.h); what coding takes and saves, the root measures. See
 * update.h.
 */
#include "lib/coll/files/update.h"

#include <stdlib.h>
#include <sys/statvfs.h>

#include "lib/base/clock.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"
#include "lib/data/files/spool.h"

/* A shorter transfer is not worth the measurement, and a faster network never is. */
#define SHORTEST .2         /* s */
#define FASTEST  500000000u /* bytes/s */
#define SAMPLES  8
#define SAMPLE   (256u << 10) /* bytes */
#define SAVES    .05          /* a smaller part is not worth it */
/* Digests, spools and other ranks that are busy: coding may take so many times as long as that of
 * the samples (make bench-fanout). */
#define MARGIN 4

/* Bytes of the files that a rank lacks. */
static uint64_t lacking(const struct collective *c)
{
	uint64_t n = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles; f++)
		if (update_bit(c->transfer.update.lacks, 2 * (uint64_t)f))
			n += c->agreed.root_files.files[f].bytes;
	return n;
}

bool update_can_decode(const struct collective *c)
{
	const uint64_t ranks = (uint64_t)job_ranks_here(c->life->job);
	uint64_t most = 0; /* also a rank that lacks little gets the whole stream */
	struct statvfs st;
	for (int f = 0; f < c->agreed.root_files.nfiles; f++)
		most += c->agreed.root_files.files[f].bytes;
	return statvfs(spool_folder(), &st) == 0 &&
	       (uint64_t)st.f_bavail * st.f_frsize / 2 / ranks > most &&
	       (!lacking(c) || coding_library());
}

bool update_may_compress(const struct collective *c)
{
	const struct update *u = &c->transfer.update;
	return c->request->update && !c->request->dry_run && u->rate && u->rate <= FASTEST &&
	       !update_bit(u->lacks, 2 * (uint64_t)c->agreed.root_files.nfiles) &&
	       (double)lacking(c) >= SHORTEST * (double)u->rate;
}

/* ---- the root's measurement ---- */

struct measure {
	struct coder *coder;
	uint8_t *piece, *coded, *back;
	uint64_t bytes, coded_bytes;
	int64_t ns;
};

static int read_sample(const struct dataset_file *in, uint8_t *to, uint64_t n, uint64_t at,
                       struct err *err)
{
	const int fd = dataset_file_open(in, err);
	const int ret = fd < 0 ? -1 : input_pread(fd, in->name, to, n, at, err);
	dataset_file_close(in, fd);
	return ret;
}

static int code_sample(struct measure *m, const struct dataset_file *in, uint64_t at,
                       struct err *err)
{
	const uint64_t n = in->size - at < SAMPLE ? in->size - at : SAMPLE;
	const int64_t start = clock_ns();
	if (read_sample(in, m->piece, n, at, err) < 0)
		return -1;
	const size_t coded = coding_encode(m->coder, m->piece, NULL, n, 0, m->coded);
	if (coding_decode(m->coder, m->coded, coded, NULL, m->back, n, err) < 0)
		return -1;
	m->ns += clock_ns() - start;
	m->bytes += n;
	m->coded_bytes += coded;
	return 0;
}

/* Samples from all parts of the files. */
static int code_samples(struct measure *m, const struct collective *c, struct err *err)
{
	const uint64_t step = lacking(c) / SAMPLES + 1;
	uint64_t next = step / 2, from = 0;
	for (int f = 0; f < c->agreed.root_files.nfiles; f++) {
		const struct dataset_file *in = files_listed_input(c, f);
		if (!update_bit(c->transfer.update.lacks, 2 * (uint64_t)f))
			continue;
		for (; next < from + in->size; next += step)
			if (code_sample(m, in, (next - from) / SAMPLE * SAMPLE, err) < 0)
				return -1;
		from += in->size;
	}
	return 0;
}

static int measure(struct measure *m, const struct collective *c, struct err *err)
{
	m->coder = coder_new(true, err);
	m->piece = err_malloc(SAMPLE, "staging", err);
	m->coded = err_malloc(CODING_ROOM(SAMPLE), "staging", err);
	m->back = err_malloc(SAMPLE, "staging", err);
	const int ret = m->coder && m->piece && m->coded && m->back ? code_samples(m, c, err) : -1;
	coder_free(m->coder);
	free(m->piece);
	free(m->coded);
	free(m->back);
	return ret;
}

int update_try_coding(void *collective, struct err *err)
{
	struct collective *c = collective;
	struct update *u = &c->transfer.update;
	struct measure m = {0};
	if (!coding_library())
		return 0;
	if (measure(&m, c, err) < 0)
		return -1;
	const double bytes = (double)m.bytes, saved = bytes - (double)m.coded_bytes;
	u->codes = saved >= SAVES * bytes &&
	           saved / (double)u->rate > MARGIN * (double)m.ns / NS_PER_SEC;
	return 0;
}
