#include "lib/base/c_locale.h"

#include <pthread.h>

static locale_t c;

static void make(void)
{
	c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t c_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make);
	return c;
}
