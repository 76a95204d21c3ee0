/*
 * The entries of a zip archive, without unpacking it: an entry that is stored lies in the file as
 * it is. Reads zip64. Source: PKWARE, APPNOTE.TXT 6.3.10, 4.3. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_ZIP_DIRECTORY_H
#define COLLCTL_DATA_TORCH_ZIP_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct zip_entry {
	const char *name; /* ends with a NUL; owned by the directory */
	uint64_t header;  /* offset of its local header in the archive */
	uint64_t bytes;   /* unpacked */
	bool stored;      /* neither compressed nor encrypted */
};

struct zip_directory {
	struct zip_entry *entries; /* sorted by name, each name once */
	size_t n;
	uint64_t at;     /* offset of the archive in its file */
	uint64_t begins; /* of the directory in the archive: all entries end before it */
	char *names;
};

/* Read the directory of the archive in the @size bytes at @at of @fd. ERR_INPUT names @path: it has
 * no directory, as a file that was cut short, or what the directory says is impossible. The
 * directory may have ZIP_DIRECTORY_MAX bytes. On failure there is nothing to release. */
#define ZIP_DIRECTORY_MAX (100u << 20)
int zip_directory_read(struct zip_directory *, int fd, const char *path, uint64_t at, uint64_t size,
                       struct err *err);
void zip_directory_release(struct zip_directory *);

/* NULL: there is none. */
const struct zip_entry *zip_directory_find(const struct zip_directory *, const char *name);

/* *offset: where the bytes of the stored @entry begin in the file. ERR_INPUT: it is compressed or
 * encrypted, its local header is another entry's, or it does not end before the directory. */
int zip_entry_offset(const struct zip_directory *, const struct zip_entry *, int fd,
                     const char *path, uint64_t *offset, struct err *err);

#endif
