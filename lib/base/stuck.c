#include "lib/base/stuck.h"

#include <stdatomic.h>

static atomic_int threads;

void stuck_add(void)
{
	atomic_fetch_add(&threads, 1);
}

void stuck_remove(void)
{
	atomic_fetch_sub(&threads, 1);
}

bool stuck_any(void)
{
	return atomic_load(&threads) > 0;
}
