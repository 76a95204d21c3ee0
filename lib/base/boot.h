#ifndef COLLCTL_BASE_BOOT_H
#define COLLCTL_BASE_BOOT_H

#include <stddef.h>

/* Read the kernel's boot id into @id, without a terminating NUL. All containers of a machine have
 * the same id. It changes when the machine boots. Returns its length in bytes; 0: it cannot be
 * read. */
#define BOOT_ID_MAX 64
size_t boot_id_read(char id[BOOT_ID_MAX]);

#endif
