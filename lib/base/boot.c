#include "lib/base/boot.h"

#include <stdio.h>

size_t boot_id_read(char id[BOOT_ID_MAX])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(id, 1, BOOT_ID_MAX, f) : 0;
	if (f)
		fclose(f);
	return n;
}
