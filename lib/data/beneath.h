/* What other ranks name lies below a folder that the user has named: no symbolic link on the way
 * leads out of it. */
#ifndef COLLCTL_DATA_BENEATH_H
#define COLLCTL_DATA_BENEATH_H

#include <stddef.h>

/* Open the folder that holds the last component of @path. The first @top bytes are the user's and
 * are followed wherever they lead; what lies behind them, '/' first, goes through folders alone.
 * @top 0: all is the user's. A descriptor, or -1: errno, of a symbolic link ENOTDIR or ELOOP. */
int beneath_open(const char *path, size_t top);

#endif
