/* Hostile hostfiles: whatever is accepted has its ranks numbered without a gap. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/store/hostfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hostfile h;
	struct err e = {0};

	if (hostfile_parse(&h, (const char *)data, size, "fuzz", &e) < 0) {
		if (!e.code || h.hosts)
			abort();
		return 0;
	}
	int rank = 0;
	for (int i = 0; i < h.nhosts; i++) {
		const struct hostfile_host *host = &h.hosts[i];
		if (host->first != rank || host->slots < 1 || !host->name[0] || host->port < 0 ||
		    host->port > 65535)
			abort();
		rank += host->slots;
	}
	if (rank != h.size || rank < 1 || rank > HOSTFILE_RANKS_MAX)
		abort();
	hostfile_release(&h);
	return 0;
}
