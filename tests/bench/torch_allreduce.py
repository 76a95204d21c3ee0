"""A rank of the peer's job in gpu.py: files to GPU memory, their sum, allreduce by torch, a file.

  torch_allreduce.py nccl|gloo cuda|cpu OUT INPUT...

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as of torchrun. gloo reduces in host memory, where the sum is
needed for its file, so it is copied there once. Prints the seconds from the first file to the last, after
torch and the device have started.
"""

import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist


def main():
    backend, kind, out, *inputs = sys.argv[1:]
    device = torch.device(kind, int(os.environ["RANK"]) % torch.cuda.device_count()) if kind == "cuda" else kind
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    warm = torch.zeros(1, device=device if backend == "nccl" else "cpu")
    dist.all_reduce(warm)
    torch.zeros(1, device=device).cpu()
    dist.barrier()
    began = time.perf_counter()
    total = None
    for path in inputs:
        x = torch.from_numpy(np.load(path)).to(device)
        total = x if total is None else total.add_(x)
    if backend == "gloo":
        total = total.cpu()
    dist.all_reduce(total)
    np.save(out, total.cpu().numpy())
    print(time.perf_counter() - began)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
