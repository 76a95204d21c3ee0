#include "lib/base/numa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/mempolicy.h>

#define NODES 1024 /* of a machine, at most */

/* "3" or "3-5" at *at, which moves behind it. */
static bool parse_range(const char **at, cpu_set_t *out)
{
	char *end;
	if (!isdigit((unsigned char)**at))
		return false;
	unsigned long first = strtoul(*at, &end, 10), last = first;
	if (*end == '-' && isdigit((unsigned char)end[1]))
		last = strtoul(end + 1, &end, 10);
	*at = end;
	if (last < first || last >= CPU_SETSIZE)
		return false;
	for (; first <= last; first++)
		CPU_SET(first, out);
	return true;
}

bool numa_parse(const char *text, cpu_set_t *out)
{
	CPU_ZERO(out);
	while (parse_range(&text, out)) {
		if (*text != ',')
			return *text == '\0' || *text == '\n';
		text++;
	}
	return false;
}

bool numa_processors(int node, cpu_set_t *out)
{
	char path[64], text[4096] = "";
	snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
	FILE *f = node < 0 ? NULL : fopen(path, "re");
	if (!f)
		return false;
	const bool got = fgets(text, sizeof text, f) != NULL;
	fclose(f);
	return got && numa_parse(text, out);
}

bool numa_prefer(int node)
{
	enum { BITS = 8 * sizeof(unsigned long) };
	unsigned long nodes[NODES / BITS] = {0};
	int policy;
	if (node < 0 || node >= NODES)
		return false;
	nodes[node / BITS] = 1ul << node % BITS;
	return syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul) == 0 &&
	       policy == MPOL_DEFAULT &&
	       syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, (unsigned long)NODES) == 0;
}

void numa_prefer_none(void)
{
	(void)syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul);
}
