"""The peer of checkpoint.py: the average of bf16 checkpoints, as one would write it with numpy and
mpi4py.

  mpirun -n P python3 mpi_checkpoint.py PREFIX OUT tensor|shard sync|no-sync

Rank r reads the .safetensors files of PREFIX.r, in turn, a tensor (or a whole shard) at a time:
bf16 to f32, Allreduce in place, division, rounding to the nearest bf16 (ties to even). It writes
files of the same names and headers to OUT.r. Prints each rank's peak of memory in KiB.
"""
import json
import os
import resource
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def to_f32(bits):
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def to_bf16(x):
    bits = x.view(np.uint32)
    odd = bits >> 16
    odd &= 1
    odd += 0x7fff
    bits += odd
    bits >>= 16
    return bits.astype(np.uint16)


def average(source, target, begin, end):
    source.seek(begin)
    x = to_f32(np.fromfile(source, np.uint16, (end - begin) // 2))
    comm.Allreduce(MPI.IN_PLACE, x, MPI.SUM)
    x /= comm.size
    target.seek(begin)
    to_bf16(x).tofile(target)


def shard(source, target, flat):
    length = source.read(8)
    text = source.read(int.from_bytes(length, "little"))
    tensors = json.loads(text)
    tensors.pop("__metadata__", None)
    target.write(length + text)
    start = 8 + len(text)
    spans = sorted(t["data_offsets"] for t in tensors.values())
    if flat:
        spans = [(spans[0][0], spans[-1][1])]
    for begin, end in spans:
        average(source, target, start + begin, start + end)


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def main():
    prefix, out, by, synced = sys.argv[1:]
    folder, out = f"{prefix}.{comm.rank}", f"{out}.{comm.rank}"
    os.mkdir(out)
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            with open(f"{folder}/{name}", "rb") as f, open(f"{out}/{name}", "wb") as to:
                to.write(f.read())
            continue
        with open(f"{folder}/{name}", "rb") as f, open(f"{out}/{name}", "wb") as to:
            shard(f, to, by == "shard")
            if synced == "sync":
                to.flush()
                os.fsync(to.fileno())
    if synced == "sync":
        sync(out)
    peaks = comm.gather(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    if comm.rank == 0:
        print(json.dumps(peaks))


main()
