/* Shared by the files of the outfile: outfile.c; outfile_target.c, what an output may replace;
 * outfile_place.c, how it gets its name; outfile_link.c, whose outputs are links; outfile_staged.c,
 * whose outputs are created at the end; and outfile_clone.c, whose outputs are clones. They return
 * 0, or -1 with ERR_OUTPUT or ERR_RESOURCE. */
#ifndef COLLCTL_DATA_FILES_OUTFILE_INTERNAL_H
#define COLLCTL_DATA_FILES_OUTFILE_INTERNAL_H

#include "lib/data/files/outfile.h"

/* Set *f, and open the folder of its target. On failure the caller releases *f. */
int outfile_find_target(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                        bool force, struct err *err);
/* The same in the folder of @beside, by its descriptor. */
int outfile_find_beside(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                        const struct outfile *beside, struct err *err);
/* Check that the target may be replaced. *mode: the permissions of the existing file, or -1. */
int outfile_check_target(struct outfile *f, int *mode, struct err *err);
/* Check that files may be created in the folder. */
int outfile_check_folder(const struct outfile *f, struct err *err);
/* Once the file has a temporary name: check the target again, and that a rename is possible. */
int outfile_check_place(struct outfile *f, struct err *err);
/* Make something with a new temporary name in the folder: *@name, f->temp or f->kept, malloced.
 * @make: 0, or -1 with errno. Returns 0, errno, or -1 with *@err set; *@name is NULL on failure. */
typedef int outfile_make(struct outfile *, const char *name, void *ctx);
int outfile_make_temp(struct outfile *f, char **name, outfile_make *make, void *ctx,
                      struct err *err);
/* A new temporary name, malloced. NULL: an error. */
char *outfile_temp_name(const struct outfile *f, struct err *err);
/* Forget a temporary name that no file of ours has. */
void outfile_drop_name(char **name);
/* Show others that the temporary file is used. Without locks only its age shows that. */
void outfile_lock_temp(const struct outfile *f);
/* Create a file with a temporary name in the folder. */
int outfile_open_named(struct outfile *f, struct err *err);
/* Link the file @from (relative to @dir) to a temporary name, likewise. */
int outfile_link_to(struct outfile *f, int dir, const char *from, int flags, char **name,
                    struct err *err);
/* Copy the first f->size bytes of the file @from, whose data are @data. Ends early as
 * offload_stopped says. */
int outfile_copy(struct outfile *f, int from, const struct sparse *data, struct err *err);
/* Report by errno a failed write or allocation, with the file size limit if there is one. */
int outfile_write_error(const struct outfile *f, const char *what, struct err *err);
/* "/proc/self/fd/N" */
void outfile_proc_path(int fd, char buf[32]);

#endif
