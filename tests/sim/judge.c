/* Judges how a job ended: its outputs, its exit codes, and what its ranks said. */
#include "tests/sim/job.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>

/* No other process was started as this rank. */
static bool is_alone(int r)
{
	for (int i = 0; i < nprocs; i++)
		if (&procs[i] != job.procs[r] && procs[i].rank == r)
			return false;
	return true;
}

/* Which faults have happened? Those of a kind that goes on all the time have, if drawn. */
static void find_struck(void)
{
	static const enum fault steady[] = {LATENCY,      SMALL_BUFFERS, SHORT_IO, SLOW_DISK,
	                                    STALE_RECORD, RESTART,       LATE,     REPLAY,
	                                    SCAN,         MISSING,       ABSENT};
	for (size_t i = 0; i < sizeof steady / sizeof steady[0]; i++)
		job.struck |= job.faults & 1u << steady[i];
	if (store_faults.struck)
		job.struck |= job.faults & (BIT(STORE_FAILS) | BIT(STORE_LIES));
	if (net.struck)
		strikes(FLIPS);
	if (insider.said)
		strikes(INSIDER);
	for (int i = 0; i < nprocs; i++) {
		const struct proc *p = &procs[i];
		if (p->kill_at && p->steps >= p->kill_at) {
			strikes(CRASH);
			job.crashed++;
		}
		if (p->disk.struck)
			strikes(DISK_FAILS);
		if (has(TWICE) && !is_alone(p->rank) && p->started <= now)
			strikes(TWICE);
	}
}

static bool struck(unsigned faults)
{
	return job.struck & faults;
}

/* Did a rank that dialled again end because its seat was taken? */
static bool has_lost_seat(void)
{
	for (int i = 0; i < nprocs; i++)
		if (procs[i].code == 7 && procs[i].redialled)
			return true;
	return false;
}

/* Does a fault that happened explain the exit code of @p? */
static bool permitted(const struct proc *p)
{
	int c = p->code;
	switch (c) {
	case 0:
		return true;
	case 5:
		if (job.fewest) /* it came too late */
			return true;
		/* Pauses may be longer than a short time to join. */
		return struck(LOSSES | BIT(STORE_FAILS) | BIT(STALE_RECORD) | BIT(PAUSE) |
		              BIT(PARTITION));
	case 8:
		/* A rank that waits for the last one is lost to the others when its time to join
		 * ends. So is the first of two processes of one rank, if the store fails another
		 * rank; and a rank that dials again and finds its seat taken. A barrier reports the
		 * links whose dials all ended as in case 9. */
		return struck((LOSSES & ~(BIT(MISSING) | BIT(TWICE))) | BIT(LATE)) ||
		       (struck(BIT(TWICE)) && struck(BIT(STORE_FAILS))) || has_lost_seat() ||
		       (job.kind == COLL_BARRIER && struck(BIT(SHORT_IO)));
	case 9:
		/* An answer to an opening that is written short ends the connection; in a short
		 * timeout all dials may end so. A rank that joined a late coordinator gives up when
		 * its time to join ends. A flipped length makes the reader wait. */
		return struck(BIT(CUT) | BIT(LONG_PAUSE) | BIT(HOST_DIES) | BIT(SHORT_IO) |
		              BIT(LATE) | BIT(FLIPS));
	case 3:
	case 4:
		return struck(BIT(DISK_FAILS));
	case 6:
		return struck(BIT(FLIPS) | BIT(STORE_LIES));
	case 10:
		return struck(BIT(FLIPS));
	case 7: /* for a rank whose seat is taken */
		return p->redialled || !is_alone(p->rank);
	case 128 + SIGTERM:
	case 128 + SIGINT:
	case 128 + SIGHUP:
		return struck(BIT(SIGNALS));
	default:
		return false;
	}
}

void complain(struct verdict *v, const char *fmt, ...)
{
	size_t len = strlen(v->text);
	va_list ap;
	v->ok = false;
	va_start(ap, fmt);
	vsnprintf(v->text + len, sizeof v->text - len, fmt, ap);
	va_end(ap);
	len = strlen(v->text);
	snprintf(v->text + len, sizeof v->text - len, "\n");
}

const char *said(const struct proc *p)
{
	return p->said.text;
}

static void judge_rank(struct verdict *v, int r, enum found found)
{
	const struct proc *p = job.procs[r];
	bool killed = p->state == PROC_KILLED;
	if (found == FOUND_WRONG)
		complain(v, "rank %d: its output is neither the old one nor the right one", r);
	if (!killed && p->code == 0 && job.want[r] && found != FOUND_NEW)
		complain(v, "rank %d: ended with 0 without its new output", r);
	/* Where a rank could not name its output, the others have theirs, and name that rank. */
	if (!killed && p->code != 0 && found == FOUND_NEW && p->code != 4 &&
	    !strstr(said(p), "after the verdict") && !has(DISK_FAILS) && is_alone(r))
		complain(v, "rank %d: ended with %d, has its new output and does not say so", r,
		         p->code);
	if (struck(BIT(LANES)) && p->again && !struck(LOSSES))
		complain(v, "rank %d: would begin again, and did not go back", r);
	const bool takes_part = job.came >> r & 1;
	/* Where ranks are missing and the store has lost the record, rank 0 cannot know whether it
	 * is the only one. */
	const bool unsure = job.fewest && struck(BIT(STORE_FAILS)) && p->code == 5;
	if (job.bounded && p->code != 0 && (takes_part || p->code != 5) && !unsure &&
	    !(job.absent >> r & 1))
		complain(v, "rank %d: ended with %d where all faults were bounded", r, p->code);
	if (!job.bounded && !killed && !permitted(p))
		complain(v, "rank %d: ended with %d, which no fault of this job explains", r,
		         p->code);
}

static bool lists_links(const char *line)
{
	int n;
	char word[8];
	return sscanf(line, "collctl: rank %*d (%*[^)]): %d %7[a-z] failed:", &n, word) == 2 &&
	       strncmp(word, "link", 4) == 0;
}

/* The rank that @p names in its last message, -1: none; a list of failed links names none. */
static int culprit(const struct proc *p)
{
	int rank = -1;
	for (const char *line = said(p); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "collctl: the job begins again", 29) == 0)
			continue;
		if (strncmp(line, "collctl: ", 9) == 0 &&
		    (sscanf(line, "collctl: rank %d", &rank) != 1 || lists_links(line)))
			rank = -1;
	}
	return rank;
}

/* Who was not ended by a signal, and whose failure is that of the job: not who never joined because
 * the store failed it, or its seat was taken, nor who can't know the missing rank's number, nor who
 * cannot resolve the address that an insider gave. */
static bool must_agree(const struct proc *p)
{
	bool unsure = job.automatic || insider.proc || struck(BIT(STORE_FAILS) | BIT(STALE_RECORD));
	bool alone = p->code == 7 || (p->code == 5 && unsure);
	return p->state == PROC_ENDED && p->code < 128 && !alone && p != insider.proc;
}

/* May a rank have been out of contact with the others, have read other bytes, or failed, too? Where
 * a rank came late, those who waited for it may also give the coordinator up before its own time to
 * join ends, and it names one of them. */
static bool out_of_contact(void)
{
	const unsigned harmless = BIT(CRASH) | BIT(DISK_FAILS) | BIT(SIGNALS) | BIT(MISSING);
	const unsigned failures = job.struck & (harmless & ~BIT(MISSING));
	/* Who fails itself names itself. */
	bool several = (failures & (failures - 1)) || job.signalled > 1 || job.crashed > 1;
	return several || struck(LOSSES & ~harmless) || struck(BIT(PAUSE) | BIT(PARTITION)) ||
	       (struck(BIT(LATE)) && !struck(BIT(MISSING)));
}

/* What the last message of @p says, without its own number, the culprit's host and, of the loss of
 * the coordinator, what it was doing itself. */
static const char *cause(const struct proc *p, int rank, char *text, size_t cap)
{
	const char *last = "";
	int own, used = 0;
	for (const char *line = said(p); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "collctl: ", 9) == 0 &&
		    strncmp(line + 9, "the job begins", 14) != 0)
			last = line + 9;
	}
	const bool named = sscanf(last, "rank %d%n", &own, &used) == 1;
	const char *rest = last + used; /* the host is named as far as a rank knows it */
	if (strncmp(rest, " (", 2) == 0 && strchr(rest, ')'))
		rest = strchr(rest, ')') + 1;
	if (named && own != rank)
		snprintf(text, cap, "rank %d%.*s", own, (int)strcspn(rest, "\n"), rest);
	else
		snprintf(text, cap, "%.*s", (int)strcspn(rest, "\n"), rest);
	static const char *const phases[] = {" while ", " during ", " before it gave the verdict"};
	for (size_t i = 0; i < 3; i++) {
		char *phase = strstr(text, phases[i]);
		if (phase && (culprit(p) == 0 || job.automatic))
			*phase = '\0';
	}
	return text;
}

/* All surviving ranks name one culprit, with one code and one text; but who had not joined when the
 * others lost a rank ends with 5. */
static void judge_agreement(struct verdict *v)
{
	int first = -1;
	for (int r = 0; r < job.size; r++) {
		const struct proc *p = job.procs[r];
		if (!must_agree(p))
			continue;
		first = first < 0 ? r : first;
		const struct proc *q = job.procs[first];
		bool codes = p->code == q->code || p->code == 5 || q->code == 5;
		if (!codes || culprit(p) != culprit(q))
			complain(
			        v,
			        "rank %d: ended with %d and names %d, but rank %d with %d names %d",
			        first, q->code, culprit(q), r, p->code, culprit(p));
		char one[1024], other[1024];
		if (p->code == q->code && p->code != 5 &&
		    strcmp(cause(q, -1, one, sizeof one), cause(p, -1, other, sizeof other)) != 0 &&
		    strcmp(cause(q, first, one, sizeof one), cause(p, r, other, sizeof other)) != 0)
			complain(v, "rank %d says '%s', but rank %d '%s'", first, one, r, other);
	}
}

/* What must not be there: files outside the ranks' folders. */
void judge_names(struct verdict *v)
{
	DIR *d = opendir(".");
	for (struct dirent *e; d && (e = readdir(d));) {
		int r = e->d_name[0] == 'r' ? atoi(e->d_name + 1) : -1;
		bool known = e->d_name[0] == '.' || strcmp(e->d_name, "hosts") == 0 ||
		             strcmp(e->d_name, "secret") == 0 || (r >= 0 && r < RANKS_MOST);
		if (!known)
			complain(v, "there is a file '%s'", e->d_name);
	}
	if (d)
		closedir(d);
}

static bool is_honest(int r)
{
	return job.procs[r] != insider.proc;
}

/* No fault but the insider and what every job must bear. */
static bool only_insider(void)
{
	return !struck(~(BIT(INSIDER) | BIT(LATENCY) | BIT(SMALL_BUFFERS) | BIT(SHORT_IO) |
	                 BIT(REPLAY) | BIT(SCAN)));
}

/* The digests of a result that all ranks have are compared. */
static bool is_compared(void)
{
	return job.kind == COLL_ALLREDUCE || job.kind == COLL_BROADCAST ||
	       job.kind == COLL_ALLGATHER;
}

/* An honest rank beside an insider. Returns whether it has committed. */
static bool judge_honest(struct verdict *v, int r, uint64_t *sum)
{
	const struct proc *p = job.procs[r];
	const enum found found = look_at_output(r);
	const bool zero = p->state == PROC_ENDED && p->code == 0;
	*sum = 0;
	if ((found == FOUND_WRONG || found == FOUND_NEW) && (!is_whole(r, sum) || !job.want[r]))
		complain(v, "rank %d: its output is neither the old one nor a whole one", r);
	if (zero && job.want[r] && found == FOUND_OLD)
		complain(v, "rank %d: ended with 0 without its new output", r);
	if (p->misled && (zero || p->named_at))
		complain(v, "rank %d: committed although %s", r, p->misled);
	if (p->misled && insider.once && only_insider() && p->code != 10)
		complain(v, "rank %d: ended with %d although %s", r, p->code, p->misled);
	if ((zero || p->named_at) && !p->voted)
		complain(v, "rank %d: committed without its vote", r);
	if (p->kept && only_insider())
		complain(v, "rank %d: is kept before its vote, but not by the insider's MOVED", r);
	return zero || p->named_at;
}

/*
 * An honest coordinator gives its verdict when all honest ranks have voted, and for equal results
 * where the ranks compare them. A lying one can give it to some.
 */
void judge_insider(struct verdict *v)
{
	uint64_t sums[RANKS_MOST];
	int committed = -1;
	find_struck();
	for (int r = 0; r < job.size; r++)
		if (is_honest(r) && judge_honest(v, r, &sums[r]))
			committed = r;
	for (int r = 0; committed >= 0 && !insider.coordinates && r < job.size; r++) {
		if (!is_honest(r))
			continue;
		if (!job.procs[r]->voted)
			complain(v, "rank %d: has not voted, but rank %d has committed", r,
			         committed);
		if (job.procs[r]->again)
			complain(v, "rank %d: would begin again, but the verdict was given", r);
		if (is_compared() && sums[r] && sums[committed] && sums[r] != sums[committed])
			complain(v, "ranks %d and %d: committed different results", r, committed);
	}
	if (committed < 0 && !insider.coordinates && !insider.poses && only_insider())
		judge_agreement(v);
}

/* The files that an ended rank leaves. */
void judge_leftovers(struct verdict *v)
{
	for (int r = 0; r < job.size; r++) {
		bool survived = true;
		for (int i = 0; i < nprocs; i++)
			survived &= procs[i].rank != r || procs[i].state == PROC_ENDED;
		int left = clear_folder(r);
		/* Where a folder could not be synced, names may come back when the power fails. */
		bool back = struck(BIT(DISK_FAILS)) && (job.dark >> job.hosts[r] & 1);
		if (survived && left && !back)
			complain(v, "rank %d: left %d temporary files", r, left);
	}
}

/* The only harm is that ranks were lost that the job may do without. */
static bool must_go_on(void)
{
	const unsigned harmless = BIT(LATENCY) | BIT(SMALL_BUFFERS) | BIT(SLOW_DISK) | BIT(LANES) |
	                          BIT(ABSENT) | BIT(CRASH) | BIT(HOST_DIES);
	unsigned left = all_ranks();
	if (!job.fewest || job.automatic || struck(~harmless) || job.timeout < 4 * SEC ||
	    job.join_timeout < 30 * SEC)
		return false;
	for (int r = 0; r < job.size; r++)
		if (job.procs[r]->state == PROC_KILLED ||
		    strstr(said(job.procs[r]), "it begins without this rank"))
			left &= ~(1u << r); /* it came after --grace */
	return left & 1 && left >> job.root & 1 && __builtin_popcount(left) >= job.fewest;
}

void judge(struct verdict *v)
{
	enum found found[RANKS_MOST];
	bool zero = false, named = false;
	find_struck();
	if (job.fewest && !find_came())
		complain(v, "no %d ranks that could have come give these outputs", job.fewest);
	for (int i = 0; i < nprocs; i++)
		zero |= procs[i].state == PROC_ENDED && procs[i].code == 0;
	v->succeeded = true;
	for (int r = 0; r < job.size; r++) {
		found[r] = look_at_output(r);
		named |= found[r] == FOUND_NEW;
		v->succeeded &= job.procs[r]->code == 0;
		judge_rank(v, r, found[r]);
	}
	for (int r = 0; r < job.size && job.kind != COLL_BARRIER; r++) {
		const struct proc *p = job.procs[r];
		if (zero && job.want[r] && found[r] != FOUND_NEW)
			complain(v, "rank %d: has the old output where another rank ended with 0",
			         r);
		if (named && job.want[r] && !p->sealed && is_alone(r))
			complain(v,
			         "rank %d: never finished its output, but another rank's has "
			         "replaced the old one",
			         r);
	}
	/* Where rank 0 lives, a link that breaks after a vote leaves no old and new files. */
	const bool only_breaks = struck(BIT(BREAKS)) && !struck(LOSSES & ~BIT(BREAKS)) &&
	                         !struck(BIT(PARTITION) | BIT(PAUSE) | BIT(LATE));
	for (int r = 0; r < job.size && only_breaks && named && job.kind != COLL_BARRIER; r++)
		if (job.want[r] && found[r] != FOUND_NEW)
			complain(v,
			         "rank %d: has the old output where another rank has its new one",
			         r);
	bool given = zero || named, verdict = given; /* may have been given */
	for (int r = 0; r < job.size; r++) {
		given |= strstr(said(job.procs[r]), "after the verdict") != NULL;
		verdict |= strstr(said(job.procs[r]), "the verdict") != NULL;
	}
	for (int r = 0; !given && must_go_on() && r < job.size; r++)
		if (job.procs[r]->state == PROC_ENDED && job.procs[r]->code != 0)
			complain(v, "rank %d: ended with %d where enough ranks were left", r,
			         job.procs[r]->code);
	for (int r = 0; given && r < job.size; r++)
		if (job.procs[r]->again && is_alone(r) && (job.came >> r & 1))
			complain(v, "rank %d: would begin again, but the verdict was given", r);
	if (!verdict && !out_of_contact() && !job.fewest)
		judge_agreement(v);
}
