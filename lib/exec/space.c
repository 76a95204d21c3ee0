#include "lib/exec/space.h"

#include <sys/mman.h>

void *space_host_alloc(size_t bytes, struct err *err)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		err_nomem(err, "a window buffer", bytes);
		return NULL;
	}
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

void space_host_free(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}
