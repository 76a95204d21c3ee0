#ifndef COLLCTL_BASE_BOOT_H
#define COLLCTL_BASE_BOOT_H

#include <stddef.h>

/* Read the kernel's boot id into @id, without an end: it is the same in all containers of a machine
 * until the machine starts again. Returns its length; 0: it cannot be read. */
#define BOOT_ID_MAX 64
size_t boot_id_read(char id[BOOT_ID_MAX]);

#endif
