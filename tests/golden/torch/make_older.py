"""The tensors of dcp.json as older versions of torch save them on two ranks.

python3 make_older.py OUT        torch 2.0 (here 2.0.1): OUT/dcp_2.0, of ShardedTensors; torch 2.1 to 2.12 (here 2.1.2, 2.4.1
                                 and 2.12.1, which describe the mesh otherwise): OUT/fsdp_2.1 ..., of DTensors
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

OUT = sys.argv[1] if len(sys.argv) > 1 else "."


def sharded(t, axis, rank):
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards
    piece = t.chunk(2, axis)[rank].contiguous()
    first = [0] * t.dim()
    first[axis] = rank * t.chunk(2, axis)[0].size(axis)
    return init_from_local_shards([Shard.from_tensor_and_offsets(piece, first, rank)], *t.shape)


def worker(rank):
    dist.init_process_group("gloo", init_method=f"file://{os.path.abspath(OUT)}/meeting", rank=rank, world_size=2)
    torch.manual_seed(3)
    full = {"w0": torch.randn(6, 4), "w1": torch.randn(5, 6).to(torch.bfloat16), "rep": torch.arange(7.), "plain": torch.arange(4)}
    if torch.__version__.startswith("2.0."):
        full.update(w0=sharded(full["w0"], 0, rank), w1=sharded(full["w1"], 1, rank))
        os.makedirs(f"{OUT}/dcp_2.0", exist_ok=True)
        dcp.save_state_dict(full, dcp.FileSystemWriter(f"{OUT}/dcp_2.0"))
    else:
        from torch.distributed._tensor import DeviceMesh, Replicate, Shard, distribute_tensor
        folder = f"{OUT}/fsdp_{'.'.join(torch.__version__.split('.')[:2])}"
        mesh = DeviceMesh("cpu", [0, 1])
        for name, placement in ("w0", Shard(0)), ("w1", Shard(1)), ("rep", Replicate()):
            full[name] = distribute_tensor(full[name].float(), mesh, [placement]).to(full[name].dtype)  # old gloo has no bf16
        os.makedirs(folder, exist_ok=True)
        torch.save(full, f"{folder}/model_world_size_2_rank_{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=2)
