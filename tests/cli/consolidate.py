#!/usr/bin/env python3
"""Recipes and oracle of consolidate.bats: checkpoints whose pieces lie in the folders of ranks, as DCP writes .safetensors.

  consolidate.py random SEED P                 folders r0 to r(P-1) with random pieces of random tensors, some of them on several ranks
  consolidate.py random_is SEED OUT            has OUT those tensors, whole?
  consolidate.py piece FILE NAME DTYPE SHAPE BOX [FILL]
                                               FILE has the box "0:2,1:4" of a tensor of this shape, 0 1 2 ... (BOX "whole": not a piece);
                                               FILL: every element is this number instead. A file that exists gets one more tensor
  consolidate.py is OUT NAME DTYPE SHAPE       has OUT this tensor, 0 1 2 ..., whole?
  consolidate.py shards FILE D P FOLDER        has FOLDER ("{rank}" is replaced) the tensors of FILE, cut along axis D as torch's Shard(D)
                                               does, in files as torch's HuggingFaceStorageWriter names and describes them?
  consolidate.py sample FILE                   tensors of 0 to 3 axes, also without elements
  consolidate.py names FILE N                  N tensors of one byte, with long names
  consolidate.py same A B                      have both the same tensors?
"""

import json
import os
import struct
import sys

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "U8": "u1", "BOOL": "u1"}


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    metadata = head.pop("__metadata__", {})
    return metadata, {name: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]) for name, t in head.items()}


def write(path, metadata, tensors):
    head, at = {"__metadata__": metadata}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def add(path, name, dtype, array, first):
    """@first: where the piece begins; None: it is whole."""
    metadata, tensors = read(path) if os.path.exists(path) else ({"DCP_VERSION": "1.0", "format": "pt", "DCP_SHARDING_INFO": "{}"}, {})
    if first is not None:
        info = json.loads(metadata["DCP_SHARDING_INFO"])
        info[name] = {"saved_offsets": list(first)}
        metadata["DCP_SHARDING_INFO"] = json.dumps(info)
    assert name not in tensors
    tensors[name] = (dtype, array.shape, np.ascontiguousarray(array).tobytes())
    write(path, metadata, tensors)


def counted(dtype, shape):
    shape = [int(n) for n in shape.split(",") if n]
    return np.arange(np.prod(shape, dtype=int)).astype(DTYPES[dtype]).reshape(shape)


def piece(path, name, dtype, shape, box, fill=None):
    array = counted(dtype, shape)
    if fill is not None:
        array[...] = int(fill)
    if box == "whole":
        add(path, name, dtype, array, None)
        return
    cut = [tuple(int(n) for n in axis.split(":")) for axis in box.split(",")]
    add(path, name, dtype, array[tuple(slice(a, b) for a, b in cut)], [a for a, _ in cut])


def has(out, name, dtype, shape):
    got = read(out)[1][name]
    want = counted(dtype, shape)
    assert got == (dtype, list(want.shape), want.tobytes()), (name, got[:2])


def tensors_of(rng):
    out = {}
    for i in range(int(rng.integers(2, 8))):
        dtype = str(rng.choice(list(DTYPES)))
        shape = [int(n) for n in rng.integers(0, 40, int(rng.integers(0, 4)))]
        top = 2 if dtype == "BOOL" else 200
        out[f"layer.{i}.\u00fc"] = (dtype, rng.integers(0, top, shape).astype(DTYPES[dtype]).reshape(shape))
    out["large"] = ("F32", rng.integers(0, 1 << 24, [int(n) for n in rng.integers(200, 400, 2)]).astype("<f4"))
    return out


def cuts(rng, box, depth):
    """The box, cut into boxes: at one place of one axis, then again."""
    axes = [i for i, (a, b) in enumerate(box) if b - a > 1]
    if not axes or depth == 0 or rng.random() < 0.2:
        return [box]
    axis = int(rng.choice(axes))
    a, b = box[axis]
    at = int(rng.integers(a + 1, b))
    return cuts(rng, box[:axis] + [(a, at)] + box[axis + 1:], depth - 1) + cuts(rng, box[:axis] + [(at, b)] + box[axis + 1:], depth - 1)


def random(seed, size):
    rng = np.random.default_rng(int(seed))
    size = int(size)
    for r in range(size):
        os.makedirs(f"r{r}")
    for name, (dtype, array) in tensors_of(rng).items():
        whole = array.ndim == 0 or rng.random() < 0.2
        for i, box in enumerate([[(0, n) for n in array.shape]] if whole else cuts(rng, [(0, n) for n in array.shape], int(rng.integers(1, 5)))):
            for r in sorted(set(int(r) for r in rng.integers(0, size, 1 + (rng.random() < 0.3)))):
                part = array[tuple(slice(a, b) for a, b in box)]
                add(f"r{r}/shard-{i}.safetensors", name, dtype, part, None if whole else [a for a, _ in box])


def random_is(seed, out):
    metadata, got = read(out)
    assert metadata == {"format": "pt"}, metadata
    want = tensors_of(np.random.default_rng(int(seed)))
    assert set(got) == set(want), set(got) ^ set(want)
    for name, (dtype, array) in want.items():
        assert got[name] == (dtype, list(array.shape), array.tobytes()), (name, got[name][:2], dtype, array.shape)


def names(path, n):
    write(path, {"format": "pt"}, {f"{i:050d}": ("U8", [1], bytes([i % 256])) for i in range(int(n))})


def sample(path):
    shapes = {"a": ("F32", "7,5"), "b.w": ("BF16", "3,4,6"), "c": ("I64", "5"), "d": ("F64", ""), "e": ("U8", "0,3"), "f \u00fc\"": ("F16", "2,9"),
              "g": ("F32", "300,200")}
    write(path, {"format": "pt"}, {name: (dtype, counted(dtype, shape).shape, counted(dtype, shape).tobytes()) for name, (dtype, shape) in shapes.items()})


def shards(path, axis, size, folder):
    axis, size = int(axis), int(size)
    want = read(path)[1]
    for r in range(size):
        metadata, got = read(f"{folder.replace('{rank}', str(r))}/shard-{r + 1:05d}-model-00001-of-00001.safetensors")
        info = json.loads(metadata.pop("DCP_SHARDING_INFO"))
        assert metadata == {"DCP_VERSION": "1.0", "format": "pt"}, metadata
        assert set(info) == set(got), (r, set(info) ^ set(got))
        for name, (dtype, shape, data) in want.items():
            if axis >= len(shape):
                assert (name in got) == (r == 0), (r, name)
                if r == 0:
                    assert got[name] == (dtype, shape, data) and info[name] == {"saved_offsets": [0] * len(shape), "whole": list(shape)}, name
                continue
            chunk = -(-shape[axis] // size)
            begin, end = min(r * chunk, shape[axis]), min((r + 1) * chunk, shape[axis])
            whole = np.frombuffer(data, DTYPES[dtype]).reshape(shape)
            part = whole[(slice(None),) * axis + (slice(begin, end),)]
            assert got[name] == (dtype, list(part.shape), part.tobytes()), (r, name)
            assert info[name] == {"saved_offsets": [begin if i == axis else 0 for i in range(len(shape))], "whole": list(shape)}, (r, name, info[name])


def same(a, b):
    assert read(a)[1] == read(b)[1]


def main():
    {"random": random, "random_is": random_is, "piece": piece, "is": has, "names": names, "sample": sample, "shards": shards,
     "same": same}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
