#!/usr/bin/env python3
"""Files that a torch (1.6 or newer) writes, and what it reads of ours. Needs no numpy.

  torch_real.py save FOLDER                    files of every kind that this torch has, and the digests of their tensors in .json
  torch_real.py load WHOLE.safetensors SHARDS...    do torch's reader of DCP with safetensors, and two ranks that read pieces along the
                                               last axis, find the tensors of WHOLE in each folder of SHARDS?
  torch_real.py consolidate FOLDER OUT         torch's own script makes OUT/model-00001-of-00001.safetensors of DCP with safetensors

A tensor is what its storage has: bytes are drawn, so that every bit pattern is there, NaN's payloads too.
"""

import collections
import ctypes
import hashlib
import io
import json
import os
import random
import sys
import tempfile
import warnings

import torch
from torch import nn

VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])
DTYPES = ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 float8_e4m3fn "
          "float8_e5m2").split()
CARRIED = "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()  # nothing can be reduced of them
UNKNOWN = "complex32 float4_e2m1fn_x2".split()  # refused by name


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.l1, self.out = nn.Embedding(8, 4), nn.Linear(4, 6), nn.Linear(4, 8, bias=False)
        self.out.weight = self.emb.weight  # tied
        self.register_buffer("steps", torch.arange(5))

    def forward(self, x):
        return self.out(self.l1(self.emb(x))[..., :4]).sum()


def content(t):
    """The bytes of the tensor's elements in C order."""
    t = t.detach().contiguous()
    return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()) if t.numel() else b""


def drawn(dtype, *shape):
    t = torch.empty(shape, dtype=dtype)
    n = t.numel() * t.element_size()
    values = [random.randrange(2 if dtype == torch.bool else 256) for _ in range(n)]
    if n:
        ctypes.memmove(t.data_ptr(), bytes(values), n)
    return t


def types(names):
    """Those of them that this torch has and can save."""
    return [(name, getattr(torch, name)) for name in names if hasattr(torch, name) and can_save(getattr(torch, name))]


def can_save(dtype):
    try:
        torch.save(torch.empty(1, dtype=dtype), io.BytesIO())
    except Exception:  # it has its own for each version
        return False
    return True


def tensors_of(value, name=""):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from tensors_of(v, name + "." + str(k) if name else str(k))
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from tensors_of(v, name + "." + str(i) if name else str(i))


def describe(path, value):
    with open(path, "w") as f:
        json.dump({name: {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "sha256": hashlib.sha256(content(t)).hexdigest()}
                   for name, t in tensors_of(value)}, f)


# ---- files of torch.save ----


def kinds():
    net, base = Net(), torch.arange(24.).reshape(4, 6)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net(torch.arange(3)).backward()
    adam.step()
    yield "types", {name: drawn(dtype, 3, 5) for name, dtype in types(DTYPES)}
    yield "carried", {name: drawn(dtype, 3, 5) for name, dtype in types(CARRIED)}
    yield "views", {"base": base, "t": base.t(), "row": base[2], "column": base[:, 1], "steps": base[::2, ::3],
                    "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "expanded": torch.arange(3.).expand(2, 3),
                    "slice": torch.arange(1000)[990:], "channels": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)}
    yield "state_dict", net.state_dict()
    yield "training", {"model": net.state_dict(), "optimizer": adam.state_dict(), "epoch": 3, "rng": torch.get_rng_state(),
                       "args": {"lr": 1e-3, "names": ["a", None, True]}, "set": (1, 2)}
    yield "parameters", collections.OrderedDict(net.named_parameters())
    yield "list", [torch.ones(2), {"x": torch.zeros(3, dtype=torch.bfloat16)}]


class Evil:
    def __reduce__(self):
        return open, ("run", "w")


def refused():
    yield "evil", {"w": torch.zeros(3), "evil": Evil()}
    yield "module", nn.Linear(2, 2)
    yield "sparse", {"w": torch.zeros(3).to_sparse()}
    yield "quantised", {"w": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}
    for name, dtype in types(UNKNOWN):
        yield name, {"w": torch.empty(3, dtype=dtype)}


# ---- distributed checkpoints ----


def distributed_names():
    """DTensor, Shard, Replicate and DeviceMesh, wherever this torch has them; None: it has none."""
    try:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        from torch.distributed.device_mesh import DeviceMesh
    except ImportError:
        try:
            from torch.distributed._tensor import DeviceMesh, Replicate, Shard, distribute_tensor
        except ImportError:
            return None
    return DeviceMesh, Replicate, Shard, distribute_tensor


def in_ranks(size, work, folder, *args):
    """work(rank, folder, *args) on each of @size ranks of a group."""
    import torch.multiprocessing as mp
    with tempfile.TemporaryDirectory() as meeting:
        mp.spawn(start, (size, meeting, work, folder, args), nprocs=size)


def start(rank, size, meeting, work, folder, args):
    import torch.distributed as dist
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    random.seed(2)
    torch.manual_seed(2)
    dist.init_process_group("gloo", init_method="file://" + meeting + "/store", rank=rank, world_size=size)
    work(rank, folder, *args)
    dist.barrier()
    dist.destroy_process_group()


def whole_tensors():
    """Uneven pieces, fewer rows than ranks, no axis, and every type."""
    out = {"w0": drawn(torch.float32, 7, 4), "w1": drawn(torch.int32, 5, 6), "few": drawn(torch.int64, 1, 3),
           "rep": drawn(torch.float64, 7), "plain": drawn(torch.int32, 4), "scalar": drawn(torch.float32)}
    out.update(("type." + name, drawn(dtype, 4, 8)) for name, dtype in types(DTYPES + CARRIED))
    return out


def distribute(full):
    """Pieces along either axis, and the whole on every rank; of 4 ranks also both after the other, over a mesh of 2 x 2."""
    import torch.distributed as dist
    DeviceMesh, Replicate, Shard, distribute_tensor = distributed_names()
    size, rank, out = dist.get_world_size(), dist.get_rank(), dict(full)
    mesh = DeviceMesh("cpu", torch.arange(size))
    ways = {"w0": (mesh, [Shard(0)]), "w1": (mesh, [Shard(1)]), "few": (mesh, [Shard(0)]), "rep": (mesh, [Replicate()])}
    if size == 4:
        grid = DeviceMesh("cpu", torch.arange(4).reshape(2, 2))
        ways.update(w0=(grid, [Shard(0), Shard(1)]), w1=(grid, [Replicate(), Shard(1)]), few=(grid, [Shard(1), Replicate()]))
    if VERSION < (2, 3):
        del ways["few"]  # which these do not cut, or do not save
    for name, (where, placements) in ways.items():
        out[name] = distribute_tensor(full[name], where, placements)
    of = type(out["w0"])
    for i, name in enumerate(n for n in full if n.startswith("type.")):  # gloo does not carry all of these types
        piece = full[name].chunk(size, i % 2)[rank].clone(memory_format=torch.contiguous_format)
        out[name] = of.from_local(piece, mesh, [Shard(i % 2)], run_check=False)
    return out


def save_rank(value, folder):
    """The file of this rank, as trainers of FSDP name them."""
    import torch.distributed as dist
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model_world_size_%d_rank_%d.pt" % (dist.get_world_size(), dist.get_rank()))
    try:
        torch.save(value, path)
    except TypeError:
        os.unlink(path)  # the DTensors of torch 2.0 cannot be saved


def checkpoint_names():
    """The module of DCP, wherever this torch has it; None: it has none."""
    try:
        import torch.distributed.checkpoint as dcp
    except ImportError:
        try:
            import torch.distributed._shard.checkpoint as dcp
        except (ImportError, ValueError):  # some cannot be imported by a newer Python
            return None
    return dcp


def save_dcp(value, folder):
    dcp = checkpoint_names()
    os.makedirs(folder, exist_ok=True)
    if hasattr(dcp, "save"):
        dcp.save(value, storage_writer=dcp.FileSystemWriter(folder))
    else:
        dcp.save_state_dict(value, dcp.FileSystemWriter(folder))


def sharded(full):
    """Rows as the ShardedTensors that the first FSDP makes."""
    import torch.distributed as dist
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards
    size, rank, out = dist.get_world_size(), dist.get_rank(), {}
    for name, t in full.items():
        out[name] = t
        if t.dim() and len(t.chunk(size)) == size:
            first = sum(len(piece) for piece in t.chunk(size)[:rank])
            shard = Shard.from_tensor_and_offsets(t.chunk(size)[rank].clone(), [first] + [0] * (t.dim() - 1), rank)
            out[name] = init_from_local_shards([shard], *t.shape)
    return out


def has_reader():
    try:
        from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter  # noqa: F401
        from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files  # noqa: F401
        import safetensors  # noqa: F401
    except ImportError:
        return False
    return True


def save_ranks(rank, folder):
    import torch.distributed as dist
    full, size = whole_tensors(), dist.get_world_size()
    if rank == 0:
        describe(os.path.join(folder, "whole.json"), full)
    save_dcp(sharded(full), os.path.join(folder, "sharded%d" % size))
    if not distributed_names():
        return
    pieces = distribute(full)
    save_rank(pieces, os.path.join(folder, "fsdp%d" % size))
    if hasattr(checkpoint_names(), "save"):  # before, it takes no DTensor of a CPU
        save_dcp(pieces, os.path.join(folder, "dcp%d" % size))
    if has_reader():
        import torch.distributed.checkpoint as dcp
        from safetensors.torch import _TYPES as stored  # those that it reads back
        known = {name for name, t in full.items() if t.dtype in stored.values()}
        if rank == 0:
            describe(os.path.join(folder, "stored.json"), {name: t for name, t in full.items() if name in known})
        dcp.save({name: t for name, t in pieces.items() if name in known},
                 storage_writer=dcp.HuggingFaceStorageWriter(os.path.join(folder, "safetensors%d" % size), save_distributed=True))
        if size == 4:
            dcp.save({name: t for name, t in pieces.items() if name in known and t.dim() and t.is_floating_point()},
                     storage_writer=dcp.HuggingFaceStorageWriter(os.path.join(folder, "floats"), save_distributed=True))


def save_fsdp(rank, folder):
    """A module that fully_shard has cut, after a step of its optimiser."""
    from torch.distributed.fsdp import fully_shard
    net = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3, bias=False)).to(torch.float32)
    for layer in net:
        fully_shard(layer, mesh=distributed_names()[0]("cpu", torch.arange(2)))
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for p in net.parameters():
        p.grad = p.detach().clone()  # some versions run no such module on a CPU
    adam.step()
    state = net.state_dict()
    for name, value in ("fully_shard", state), ("fully_shard_training", {"model": state, "optimizer": adam.state_dict(), "step": 1}):
        whole = whole_of(value)
        if rank == 0:
            describe(os.path.join(folder, name + ".json"), whole)
        save_rank(value, os.path.join(folder, name))


def whole_of(value):
    if isinstance(value, dict):
        return {k: whole_of(v) for k, v in value.items()}
    return value.full_tensor() if hasattr(value, "full_tensor") else value


# ---- what we write ----


def read_safetensors(path):
    """{name: (torch's dtype, shape, bytes)}"""
    from safetensors.torch import _getdtype
    with open(path, "rb") as f:
        data = f.read()
    at = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:at])
    head.pop("__metadata__", None)
    return {name: (_getdtype(t["dtype"]), t["shape"], data[at + t["data_offsets"][0]:at + t["data_offsets"][1]]) for name, t in head.items()}


def empty_like(whole):
    return {name: torch.full([max(1, len(data))], 0xa5, dtype=torch.uint8)[:len(data)].view(dtype).reshape(shape)
            for name, (dtype, shape, data) in whole.items()}


def load_ranks(rank, _, path, folders):
    """Each of two ranks gets its part, cut along the last axis, of the file's tensors."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import DTensor
    DeviceMesh, _, Shard, _ = distributed_names()
    whole, mesh, want, value = read_safetensors(path), DeviceMesh("cpu", torch.arange(2)), empty_like(read_safetensors(path)), {}
    for name, (_, shape, data) in whole.items():
        if data:
            ctypes.memmove(want[name].data_ptr(), data, len(data))
        cut = shape and shape[-1] % 2 == 0
        if cut:
            want[name] = want[name].chunk(2, len(shape) - 1)[rank].contiguous()
        value[name] = torch.empty_like(want[name])
        if cut:
            value[name] = DTensor.from_local(value[name], mesh, [Shard(len(shape) - 1)], run_check=False)
    for shards in folders:
        dcp.load(value, storage_reader=dcp.HuggingFaceStorageReader(shards))
        for name, t in value.items():
            local = t.to_local() if hasattr(t, "to_local") else t
            assert content(local) == content(want[name]), (shards, rank, name)
            if local.numel():
                ctypes.memset(local.data_ptr(), 0xa5, local.numel() * local.element_size())


def load(path, *folders):
    import torch.distributed.checkpoint as dcp
    whole = read_safetensors(path)
    for shards in folders:
        value = empty_like(whole)
        dcp.load(value, storage_reader=dcp.HuggingFaceStorageReader(shards), no_dist=True)
        for name, (_, _, data) in whole.items():
            assert content(value[name]) == data, (shards, name)
    in_ranks(2, load_ranks, ".", path, folders)


def consolidate(folder, out):
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
    names = set()
    for name in os.listdir(folder):
        names.update(read_safetensors(os.path.join(folder, name)))
    os.makedirs(out)
    consolidate_safetensors_files(folder, out, dict.fromkeys(sorted(names), 1))


# ---- commands ----


def save(folder):
    random.seed(1)
    torch.manual_seed(1)
    os.makedirs(folder)
    with open(os.path.join(folder, "version"), "w") as f:
        print(torch.__version__, file=f)
    for name, value in kinds():
        if not value:
            continue
        path = os.path.join(folder, name)
        torch.save(value, path + ".pt")
        for protocol in (3, 4):
            torch.save(value, "%s.%d.pt" % (path, protocol), pickle_protocol=protocol)
        describe(path + ".json", value)
    os.makedirs(os.path.join(folder, "refused"))
    for name, value in refused():
        torch.save(value, os.path.join(folder, "refused", name + ".pt"))
    torch.save({"w": torch.zeros(3)}, os.path.join(folder, "refused", "old.pt"), _use_new_zipfile_serialization=False)
    if not checkpoint_names():
        return
    for size in (2, 4):
        in_ranks(size, save_ranks, folder)
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        return
    in_ranks(2, save_fsdp, folder)


def main():
    warnings.filterwarnings("ignore")  # of what torch deprecates
    {"save": save, "load": load, "consolidate": consolidate}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
