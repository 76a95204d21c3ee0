/* Recognises files of other formats that have the name of a raw file; their bytes are not
 * elements. */
#ifndef COLLCTL_DATA_FORMATS_FOREIGN_H
#define COLLCTL_DATA_FORMATS_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* 0: the @size bytes of @fd are not a zip archive, a pickle of torch.save, a .npy or a .safetensors
 * file. -1: ERR_INPUT says what @path is and what to do, or that it cannot be read. */
int foreign_check(int fd, const char *path, uint64_t size, struct err *err);
/* Is it an archive as torch.save has written it since version 1.6? ERR_INPUT: says what it is. */
int foreign_check_torch(int fd, const char *path, uint64_t size, struct err *err);
/* The same, as an answer; an error of reading is no. */
bool foreign_is_torch(int fd, uint64_t size);

#endif
