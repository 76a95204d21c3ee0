/*
 * Distributed checkpoints of torch (torch.distributed.checkpoint, DCP): a folder to which ranks
 * have written pieces of tensors. Two kinds:
 *
 *   .metadata and *.distcp     .metadata, a pickle, says where each piece lies; a piece is an
 * archive of torch.save
 *   *.safetensors              __metadata__ has DCP_SHARDING_INFO: where in its tensor a piece
 * begins
 *
 * Either way the dataset has whole tensors. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_DCP_H
#define COLLCTL_DATA_TORCH_DCP_H

#include "lib/data/dataset/dataset_internal.h"

/* Has the folder a .metadata? */
bool dcp_is_folder(const char *folder);
/* Open the folder d->path, which has one. ERR_INPUT. */
int dcp_open(struct dataset *, const struct dataset_source *, struct err *err);

/* Are the files of @d pieces, as their metadata says? */
bool dcp_is_safetensors(const struct dataset *d);
/* Join the tensors of all files of @d, which have the same names in several files. */
int dcp_join_safetensors(struct dataset *, const struct dataset_source *, struct err *err);

#endif
