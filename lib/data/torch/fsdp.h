/*
 * Checkpoints that each rank of FSDP2 has saved by torch.save: a folder with the files
 * model_world_size_N_rank_R.pt, R from 0 to N - 1, whose tensors are DTensors: pieces that are
 * sharded or replicated over the ranks. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_FSDP_H
#define COLLCTL_DATA_TORCH_FSDP_H

#include "lib/data/dataset/dataset_internal.h"

/* Has the folder such a file? */
bool fsdp_is_folder(const char *folder);
/* Open the folder d->path as whole tensors. ERR_INPUT: a file is missing, or a piece. */
int fsdp_open(struct dataset *, const struct dataset_source *, struct err *err);

#endif
