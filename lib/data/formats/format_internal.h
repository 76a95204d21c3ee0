/* Functions that several formats share. */
#ifndef COLLCTL_DATA_FORMATS_FORMAT_INTERNAL_H
#define COLLCTL_DATA_FORMATS_FORMAT_INTERNAL_H

#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/files/sink_internal.h"

/* format.open and format.lay_out of a format of single arrays (format_array.c). */
int format_open_array(struct dataset *, const struct dataset_source *, const struct array_hints *,
                      struct err *);
int format_lay_out_array(struct sink *, const char *path, const struct dataset *like,
                         struct place *places, struct err *);

#endif
