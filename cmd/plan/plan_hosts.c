/*
 * plan --hosts: the ranks of each host.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/plan.h"

/* A number of 1 .. @max at *@text, which moves behind it. 0: there is none. */
static int number(const char **text, int max)
{
	char *end;
	long n;

	if (**text < '0' || **text > '9')
		return 0;
	n = strtol(*text, &end, 10);
	*text = end;
	return n <= max ? (int)n : 0;
}

/* Put @n more ranks on the next host. False: too many. */
static bool add_host(int *host, int *size, int *hosts, int n)
{
	if (n > JOB_MAX_SIZE - *size)
		return false;
	for (int i = 0; i < n; i++)
		host[(*size)++] = *hosts;
	++*hosts;
	return true;
}

/* "4x8" or "3,5,2". False: neither. */
static bool parse(const char *text, int *host, int *size)
{
	int n = number(&text, JOB_MAX_SIZE), hosts = 0;

	*size = 0;
	if (n && *text == 'x') {
		const int hosts_wanted = n;

		text++;
		n = number(&text, JOB_MAX_SIZE);
		for (int h = 0; n && h < hosts_wanted; h++)
			if (!add_host(host, size, &hosts, n))
				return false;
		return n && !*text;
	}
	while (n && add_host(host, size, &hosts, n)) {
		if (!*text)
			return true;
		if (*text++ != ',')
			return false;
		n = number(&text, JOB_MAX_SIZE);
	}
	return false;
}

int plan_hosts(const char *text, int **host, int *size, struct err *err)
{
	if (!(*host = err_calloc(JOB_MAX_SIZE, sizeof **host, "the hosts", err)))
		return -1;
	if (parse(text, *host, size))
		return 0;
	return err_set(err, ERR_USAGE,
	               "--hosts: '%s' is neither HOSTSxRANKS, such as 4x8, nor the ranks of each "
	               "host, such as 3,5,2 (at most %d ranks)",
	               text, JOB_MAX_SIZE);
}
