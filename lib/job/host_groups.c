#include "lib/job/host_groups.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/boot.h"
#include "lib/base/buf.h"
#include "lib/crypto/crypto.h"

#define PREFIX "collctl host|"

/* The prefix keeps a name that a user gives apart from a boot id. */
static void hash(uint8_t id[HOST_ID], const char *prefix, const char *text, size_t len)
{
	uint8_t sum[32];
	struct err ignored = {0};
	struct buf b;
	buf_init(&b, SIZE_MAX);
	buf_put_text(&b, prefix);
	buf_put(&b, text, len);
	if (!b.failed && crypto_sha256(b.data, b.len, sum, &ignored) == 0)
		memcpy(id, sum, HOST_ID);
	buf_release(&b);
}

void host_id_find(uint8_t id[HOST_ID], const char *given)
{
	char boot[BOOT_ID_MAX], text[BOOT_ID_MAX + 48];
	struct stat net = {0}; /* zeros: a system that does not say */
	memset(id, 0, HOST_ID);
	size_t len = boot_id_read(boot);
	(void)stat("/proc/self/ns/net", &net);
	int n = snprintf(text, sizeof text, "%.*s|%llu", (int)len, boot,
	                 (unsigned long long)net.st_ino);
	if (given && *given)
		hash(id, PREFIX "given|", given, strlen(given));
	else if (len)
		hash(id, PREFIX "boot|", text, (size_t)n);
}

static bool is_known(const struct host_member *m)
{
	static const uint8_t none[HOST_ID];
	return memcmp(m->id, none, HOST_ID) != 0;
}

static int by_id(const void *a, const void *b)
{
	const struct host_member *m = a, *n = b;
	int d = memcmp(m->id, n->id, HOST_ID);
	return d ? d : (m->rank > n->rank) - (m->rank < n->rank);
}

int host_groups(struct host_member *members, int size, int *host)
{
	int hosts = 0;
	qsort(members, (size_t)size, sizeof *members, by_id);
	/* First the lowest rank of each rank's host, then the hosts' numbers in that order. */
	for (int i = 0, first = 0; i < size; i++) {
		if (memcmp(members[i].id, members[first].id, HOST_ID) != 0 ||
		    !is_known(&members[i]))
			first = i;
		host[members[i].rank] = members[first].rank;
	}
	for (int r = 0; r < size; r++)
		host[r] = host[r] == r ? hosts++ : host[host[r]];
	return hosts;
}

int host_groups_spread(int **host, const int *came, int ncame, int size, struct err *err)
{
	int *all = err_calloc((size_t)size, sizeof *all, "the hosts of the ranks", err);
	for (int r = 0; all && r < size; r++)
		all[r] = -1;
	for (int k = 0; all && k < ncame; k++)
		all[came[k]] = *host ? (*host)[k] : k;
	free(*host);
	*host = all;
	return all ? 0 : -1;
}

int *host_groups_of(const int *host, const int *came, int ncame, struct err *err)
{
	int *of = err_calloc((size_t)ncame, sizeof *of, "the hosts of the ranks", err);
	for (int k = 0; of && k < ncame; k++)
		of[k] = host[came[k]];
	return of;
}

/* ---- the groups in bytes ---- */

/* Ranks of hosts first, first + 1, ...: @each consecutive ranks of each. */
struct run {
	int first, hosts, each;
};

/* How many ranks from @r on, and before @size, are on the host of @r. */
static int stretch(const int *host, int size, int r)
{
	int end = r;
	while (end < size && host[end] == host[r])
		end++;
	return end - r;
}

static struct run run_at(const int *host, int size, int r)
{
	struct run run = {.first = host[r], .hosts = 1, .each = stretch(host, size, r)};
	for (r += run.each; r < size && host[r] == run.first + run.hosts; r += run.each) {
		if (stretch(host, size, r) != run.each)
			break;
		run.hosts++;
	}
	return run;
}

void host_groups_put(struct buf *b, const int *host, int size)
{
	buf_put_u8(b, host != NULL);
	for (int r = 0; host && r < size;) {
		const struct run run = run_at(host, size, r);
		buf_put_u16(b, (uint16_t)run.first);
		buf_put_u16(b, (uint16_t)(run.hosts - 1));
		buf_put_u16(b, (uint16_t)(run.each - 1));
		r += run.hosts * run.each;
	}
}

/* Write the run into @host from @r on. Returns the rank after it; -1: it does not fit, or does not
 * continue the numbering of *hosts hosts. */
static int take_run(const struct run *run, int *host, int size, int r, int *hosts)
{
	if (run->first > *hosts || run->hosts > (size - r) / run->each)
		return -1;
	for (int h = run->first; h < run->first + run->hosts; h++)
		for (int i = 0; i < run->each; i++)
			host[r++] = h;
	if (run->first + run->hosts > *hosts)
		*hosts = run->first + run->hosts;
	return r;
}

int host_groups_get(struct view *v, int size, int **host, struct err *err)
{
	int hosts = 0, r = 0;
	*host = NULL;
	if (!view_u8(v))
		return v->failed ? err_set(err, ERR_INTEGRITY, "malformed groups of ranks") : size;
	int *all = err_calloc((size_t)size, sizeof *all, "the hosts of the ranks", err);
	if (!all)
		return -1;
	while (r >= 0 && r < size) {
		struct run run = {.first = view_u16(v)};
		run.hosts = 1 + view_u16(v);
		run.each = 1 + view_u16(v);
		r = v->failed ? -1 : take_run(&run, all, size, r, &hosts);
	}
	if (r < 0 || hosts == size) {
		free(all);
		return r < 0 ? err_set(err, ERR_INTEGRITY, "malformed groups of ranks") : size;
	}
	*host = all;
	return hosts;
}
