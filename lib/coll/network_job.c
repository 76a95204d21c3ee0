/* What a job knows of its network: this rank's link, and on the coordinator the round trips and the
 * tuning file's hosts. See task.h. */
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/coll/task.h"
#include "lib/net/socket_buffer.h"
#include "lib/price/tuning.h"
#include "lib/sched/placement.h"

struct network_found coll_link(const struct coll *c)
{
	const struct job_settings *s = &c->request->settings;
	const uint64_t speed = s->link.up ? 0 : job_link_speed(c->job);

	return (struct network_found){.up = s->link.up ? s->link.up : speed,
	                              .down = s->link.up ? s->link.down : speed,
	                              .from = s->link.up ? NETWORK_TOLD
	                                      : speed    ? NETWORK_INTERFACE
	                                                 : NETWORK_UNKNOWN,
	                              .limit = s->limit_rate};
}

struct network_found coll_offered_link(const struct coll *c)
{
	struct network_found link = coll_link(c);

	link.socket = socket_buffer_most(SOCKET_BUFFER_SYSCTLS);
	return link;
}

int coll_find_network(const struct coll *c, const int *host, const struct select_tuning *tuning,
                      struct network *n, struct err *err)
{
	const char **names = err_calloc((size_t)n->n, sizeof *names, "the hosts", err);
	const struct network_found own = coll_link(c); /* it had no link when it made its offer */

	if (!names)
		return -1;
	network_add(n, host_of_rank(host, c->rank), &own);
	for (int r = 0; r < c->size; r++) {
		const int h = host_of_rank(host, r);
		if (h < 0) /* the rank is missing */
			continue;
		names[h] = job_host(c->job, r);
		network_add_round_trip(n, h, (double)job_round_trip(c->job, r) / NS_PER_SEC);
	}
	if (tuning)
		tuning_apply(tuning, names, n);
	free(names);
	network_settle(n, tuning ? &tuning->rates : &price_default);
	return 0;
}
