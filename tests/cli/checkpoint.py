#!/usr/bin/env python3
"""Make checkpoints, read them strictly, and compute with numpy what a collective must make of them.

  checkpoint.py make SPEC P             in.R.safetensors of P ranks (or as --in says)
  checkpoint.py check KIND OP P         out.R.safetensors (--out) against what KIND (allreduce,
                                        reduce, broadcast) makes of the inputs
  checkpoint.py edit FILE HOW NAME...   HOW: drop, add, as (another type of the same width), flat
                                        (another shape), set (another value)
  checkpoint.py reference FILE...       is each what the reference library makes of its tensors? (it
                                        is on PYTHONPATH)
  checkpoint.py show PATH               each tensor's name, dtype, shape, values

Names of inputs and outputs hold {rank} and, where there are several, {k}; with an extension they are
files, without they are folders: sharded sets. SPEC is one of those in SPECS below.

A file is read by the rules of the format: no holes, no overlap, no key twice; and what collctl
writes has to be in the reference library's order (types by alignment descending, then names), its
header padded to a multiple of 8.
"""

import argparse
import fnmatch
import json
import os
import struct
import sys

import numpy as np

from values import (ARITHMETIC, BITS, FLOATS, INTEGERS, NO_ARITHMETIC, OPS, ORDER, ROUNDING, bound, decode,
                    encode, exact_average, numbers, reduce)

INDEX = "model.safetensors.index.json"


# ---- files ----


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, tuple(shape), data

    def kind(self):
        return self.dtype, self.shape

    def numbers(self):
        return decode(self.dtype, self.data)


def dump(header, data):
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack("<Q", len(text)) + text + data


def file_bytes(tensors, metadata=None):
    """In the order of the dict, so that a reader can't count on one."""
    header, data = {}, b""
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(t.data)]}
        data += t.data
    if metadata is not None:
        header["__metadata__"] = metadata
    return dump(header, data)


def write_file(path, tensors, metadata=None):
    with open(path, "wb") as f:
        f.write(file_bytes(tensors, metadata))


class Wrong(Exception):
    pass


def only_once(pairs):
    if len({k for k, _ in pairs}) != len(pairs):
        raise Wrong("a key twice")
    return dict(pairs)


def read_file(path, canonical):
    """Its tensors in the order in which they lie, and the metadata."""
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + n].decode(), object_pairs_hook=only_once)
    data, metadata = raw[8 + n:], header.pop("__metadata__", None)
    tensors, at = {}, 0
    for name, e in sorted(header.items(), key=lambda i: (i[1]["data_offsets"], i[0].encode())):
        begin, end = e["data_offsets"]
        if begin != at or 8 * (end - begin) != BITS[e["dtype"]] * int(np.prod(e["shape"], dtype=object)):
            raise Wrong(f"{path}: {name!r} lies at {begin}..{end} instead of {at}")
        tensors[name] = Tensor(e["dtype"], e["shape"], data[begin:end])
        at = end
    if at != len(data):
        raise Wrong(f"{path}: {len(data) - at} bytes too many")
    if canonical:
        if n % 8:
            raise Wrong(f"{path}: a header of {n} bytes")
        # Tensors without bytes have the place of their neighbours: their order is the header's.
        want = sorted(header, key=lambda k: (-ORDER[header[k]["dtype"]], k.encode()))
        if list(header) != want:
            raise Wrong(f"{path}: the order is {list(header)}")
    return tensors, metadata


class Checkpoint:
    """files: {base name: ({name: Tensor}, metadata)}; of a single file the name is None."""

    def __init__(self, files, index=None):
        self.files, self.index = files, index

    @property
    def tensors(self):
        return {k: t for tensors, _ in self.files.values() for k, t in tensors.items()}


def read(path, canonical=False):
    if not os.path.isdir(path):
        return Checkpoint({None: read_file(path, canonical)})
    names = sorted(os.listdir(path))
    index = None
    if INDEX in names:
        names.remove(INDEX)
        with open(f"{path}/{INDEX}", encoding="utf-8") as f:
            index = json.load(f, object_pairs_hook=only_once)
    c = Checkpoint({n: read_file(f"{path}/{n}", canonical) for n in names}, index)
    if index and index["weight_map"] != {k: f for f, (ts, _) in c.files.items() for k in ts}:
        raise Wrong(f"{path}: the index has another weight_map")
    if index and canonical and index["metadata"].get("total_size") != sum(
            len(t.data) for t in c.tensors.values()):
        raise Wrong(f"{path}: total_size is {index['metadata'].get('total_size')}")
    return c


def write(path, c):
    if None in c.files:
        return write_file(path, *c.files[None])
    os.makedirs(path, exist_ok=True)
    for name, (tensors, metadata) in c.files.items():
        write_file(f"{path}/{name}", tensors, metadata)
    if c.index:
        with open(f"{path}/{INDEX}", "w", encoding="utf-8") as f:
            json.dump(c.index, f, ensure_ascii=False, indent=2)
    return None


# ---- what the inputs hold ----


def tensor(dtype, shape, rng, data, rank):
    count = int(np.prod(shape, dtype=np.int64))
    if dtype in NO_ARITHMETIC:
        return Tensor(dtype, shape, rng.bytes(count * BITS[dtype] // 8))
    return Tensor(dtype, shape, encode(dtype, numbers(dtype, count, rng, data, rank)))


def mixed(types=ARITHMETIC):
    """Every type: matrices, vectors, scalars, some of no elements, under names with dots."""
    return [(f"{t.lower()}.{part}", t, shape) for t in types
            for part, shape in (("weight", (3, 8)), ("bias", (8,)), ("scale", ()), ("none", (0, 4)))
            if BITS[t] % 8 == 0 or shape]


NAMES = ["a b", "a.b", "layer 0/q", "gr\u00fc\u00dfe", "\u5c64.\u91cd\u307f", "\U0001f9ee", '"quoted"', "it's", "back\\slash",
         "new\nline", "tab\t", "\x7f", "\x1b[31m", "-", "--include", "{rank}", "*", "__metadata", "", ".",
         "..", "a" * 3000]
SPECS = {
    "mixed": mixed,
    "types": lambda: mixed(BITS),
    "averaged": lambda: [(f"{t.lower()}.w", t, (911,)) for t in FLOATS],
    "integers": lambda: [(f"{t.lower()}.n", t, (67,)) for t in (*INTEGERS, "BOOL")],
    "complex": lambda: [("c64.w", "C64", (911,))],
    "small": lambda: [(f"layers.{i}.{p}", t, (1 + i % 64,)) for i in range(100)
                      for p, t in (("weight", "BF16"), ("norm", "F32"), ("steps", "I64"))],
    "names": lambda: [(n, "F32" if i % 2 else "BF16", (5, 2)) for i, n in enumerate(NAMES)],
    "large": lambda: [("embed", "BF16", (500, 701)), ("lm_head", "BF16", (701, 500)),
                      ("norm", "F32", (200001,)), ("ids", "I32", (100003,)), ("odd", "F8_E4M3", (77777,))],
    "two": lambda: [("a.weight", "F32", (4, 3)), ("b.weight", "BF16", (6,)), ("c.weight", "F32", (2,))],
    "none": lambda: [],
}


def make(spec, rank, path, seed, data, shards, shuffle, index):
    rng = np.random.default_rng([seed, rank])
    tensors = {name: tensor(t, shape, rng, data, rank) for name, t, shape in SPECS[spec]()}
    names = sorted(tensors)
    if shuffle:
        names = [names[i] for i in rng.permutation(len(names))]
    metadata = {"format": "pt", "rank": f"{rank} \u2713"}
    if path.endswith(".safetensors"):
        return write(path, Checkpoint({None: ({n: tensors[n] for n in names}, metadata)}))
    if shuffle:
        shards += rank % 2
    files = {f"model-{i + 1:05d}-of-{shards:05d}.safetensors": names[i::shards] for i in range(shards)}
    about = {"weight_map": {n: f for f, ns in files.items() for n in ns}, "ignored": [1],
             "metadata": {"total_size": sum(len(t.data) for t in tensors.values()), "made by": "test"}}
    return write(path, Checkpoint({f: ({n: tensors[n] for n in ns}, metadata) for f, ns in files.items()},
                                  about if index else None))


# ---- checking ----


def chosen(name, include, exclude):
    def match(globs):
        return any(fnmatch.fnmatchcase(name, g) for g in globs)
    return (not include or match(include)) and not match(exclude)


def select(c, include, exclude):
    """What is left of a checkpoint: files that hold nothing any more are left out."""
    files = {f: ({n: t for n, t in ts.items() if chosen(n, include, exclude)}, m)
             for f, (ts, m) in c.files.items()}
    return Checkpoint({f: v for f, v in files.items() if v[0] or c.tensors == {}}, c.index)


def differ(path, name, dtype, got, want):
    g, w = decode(dtype, got), decode(dtype, want)
    step = BITS[dtype] // 8
    at = next(i for i in range(len(g)) if got[i * step:i * step + step] != want[i * step:i * step + step])
    raise Wrong(f"{path}: {name!r} ({dtype}): element {at} is {g[at]!r}, expected {w[at]!r}")


def check_layout(path, got, like):
    """The files and where the tensors are, metadata, and the index, are those of the rank's input."""
    if list(got.files) != list(like.files):
        raise Wrong(f"{path}: has files {list(got.files)} instead of {list(like.files)}")
    for f in got.files:
        (tensors, metadata), (want, want_metadata) = got.files[f], like.files[f]
        if {k: t.kind() for k, t in tensors.items()} != {k: t.kind() for k, t in want.items()}:
            raise Wrong(f"{path}: {f}: has {list(tensors)}, expected {list(want)}")
        if metadata != want_metadata:
            raise Wrong(f"{path}: {f}: metadata {metadata} instead of {want_metadata}")
    if bool(got.index) != bool(like.index):
        raise Wrong(f"{path}: an index on one side only")
    if got.index and got.index["metadata"].get("made by") != "test":
        raise Wrong(f"{path}: the index lost its metadata: {got.index['metadata']}")


def check_values(path, got, per_rank, a):
    for name, t in got.tensors.items():
        inputs = [[c.tensors[name].numbers() for c in cs] for cs in per_rank]
        want = reduce(a.op, t.dtype, inputs, a.weights, a.integers)
        if t.data == want:
            continue
        if not a.near or t.dtype not in FLOATS:
            differ(path, name, t.dtype, t.data, want)
        u, tiny = ROUNDING[t.dtype]
        exact, x = exact_average(inputs, a.weights), t.numbers()
        allowed = bound(t.dtype, inputs, a.weights)
        # The last rounding, to half a unit; and that of @exact to f64.
        allowed = allowed + np.maximum(u * (np.abs(exact) + allowed), tiny / 2) + 2.0**-53 * np.abs(exact)
        off = np.abs(x - exact) - allowed
        if not np.all(off <= 0):
            i = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
            raise Wrong(f"{path}: {name!r} ({t.dtype}): element {i} is {x[i]!r}, the average "
                        f"{exact[i]!r}, allowed difference {allowed[i]!r}")


def name_of(pattern, rank, k=0):
    return pattern.format(rank=rank, k=k)


def cmd_check(a):
    counts = a.inputs * a.size if len(a.inputs) == 1 else a.inputs
    read_ranks = [a.root] if a.kind == "broadcast" else range(a.size)
    per_rank = {r: [read(name_of(a.inp, r, k)) for k in range(counts[r])] for r in read_ranks}
    write_ranks = [a.root] if a.kind == "reduce" else range(a.size)
    first = None
    for r in range(a.size):
        path = name_of(a.out, r)
        if r not in write_ranks:
            if os.path.exists(path):
                raise Wrong(f"{path}: exists, but rank {r} has no result")
            continue
        got = read(path, canonical=a.kind != "broadcast" or a.include or a.exclude)
        like = per_rank[a.root if a.kind == "broadcast" else r][0]
        check_layout(path, got, select(like, a.include, a.exclude))
        if first is None:
            first = got
            if a.kind == "broadcast":
                for name, t in got.tensors.items():
                    if t.data != like.tensors[name].data:
                        differ(path, name, t.dtype, t.data, like.tensors[name].data)
            else:
                check_values(path, got, list(per_rank.values()), a)
        for name, t in got.tensors.items():
            if t.data != first.tensors[name].data:
                raise Wrong(f"{path}: {name!r}: other bits than of the first rank")


def cmd_make(a):
    for r in range(a.size):
        for k in range(a.inputs):
            make(a.spec, r, name_of(a.inp, r, k), a.seed + k, a.data, a.shards, a.shuffle, not a.no_index)


# ---- commands ----


def cmd_edit(a):
    tensors, metadata = read_file(a.path, False)
    for name in a.names:
        t = tensors.get(name, Tensor("F32", (2,), bytes(8)))
        if a.how == "drop":
            del tensors[name]
        elif a.how == "as":
            tensors[name] = Tensor({"F32": "I32", "BF16": "F16"}[t.dtype], t.shape, t.data)
        elif a.how == "flat":
            tensors[name] = Tensor(t.dtype, (1, *t.shape), t.data)
        elif a.how == "set":
            tensors[name] = Tensor(t.dtype, t.shape, t.data[:-1] + bytes([t.data[-1] ^ 1]))
        else:
            tensors[name] = t
    write_file(a.path, tensors, metadata)


REFERENCE = {  # its constructor's names
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn",
    "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32",
    "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64",
}


def cmd_reference(a):
    """It reads the same, and lays the same out alike: the bytes but for the order of __metadata__."""
    import safetensors
    for path in a.paths:
        tensors, metadata = read_file(path, True)
        with open(path, "rb") as f:
            raw = f.read()
        found = {k: (v["dtype"], tuple(v["shape"]), bytes(v["data"])) for k, v in safetensors.deserialize(raw)}
        if found != {k: (t.dtype, t.shape, t.data) for k, t in tensors.items()}:
            raise Wrong(f"{path}: the reference library reads something else")
        keep = {k: np.frombuffer(t.data or b"\0", "u1") for k, t in tensors.items()}
        specs = {k: safetensors.TensorSpec(dtype=REFERENCE[t.dtype], shape=list(t.shape),
                                           data_ptr=keep[k].ctypes.data, data_len=len(t.data))
                 for k, t in tensors.items()}
        own = safetensors.serialize(specs, metadata)
        with open(path + ".reference", "wb") as f:
            f.write(own)
        theirs, their_metadata = read_file(path + ".reference", True)
        os.remove(path + ".reference")
        n = 8 + struct.unpack("<Q", raw[:8])[0]
        if own[:8] != raw[:8] or own[n:] != raw[n:] or list(theirs) != list(tensors) or their_metadata != metadata:
            raise Wrong(f"{path}: the reference library would write it otherwise")


def cmd_show(a):
    for f, (tensors, metadata) in read(a.path).files.items():
        print(f, metadata)
        for name, t in tensors.items():
            values = t.data.hex() if t.dtype in NO_ARITHMETIC else t.numbers()[:8]
            print(f"  {name!r} {t.dtype} {t.shape} {values}")


def weights_of(text):
    return [float(w) for w in text.split(",")]


def counts_of(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    s = p.add_subparsers(required=True)

    q = s.add_parser("make")
    q.add_argument("spec", choices=SPECS)
    q.add_argument("size", type=int)
    q.add_argument("--in", dest="inp", default="in.{rank}.safetensors")
    q.add_argument("--inputs", type=int, default=1)
    q.add_argument("--seed", type=int, default=0)
    q.add_argument("--data", default="exact", choices=("exact", "random", "adversarial"))
    q.add_argument("--shards", type=int, default=3)
    q.add_argument("--shuffle", action="store_true", help="another order, other shards on each rank")
    q.add_argument("--no-index", action="store_true")
    q.set_defaults(run=cmd_make)

    q = s.add_parser("check")
    q.add_argument("kind", choices=("allreduce", "reduce", "broadcast"))
    q.add_argument("op", choices=OPS)
    q.add_argument("size", type=int)
    q.add_argument("--in", dest="inp", default="in.{rank}.safetensors")
    q.add_argument("--out", default="out.{rank}.safetensors")
    q.add_argument("--inputs", type=counts_of, default=[1], help="of each rank, or 3,1")
    q.add_argument("--root", type=int, default=0)
    q.add_argument("--weights", type=weights_of)
    q.add_argument("--integers", default="round", choices=("first", "equal", "round"))
    q.add_argument("--include", action="append", default=[])
    q.add_argument("--exclude", action="append", default=[])
    q.add_argument("--near", action="store_true", help="floats within the bound of any order")
    q.set_defaults(run=cmd_check)

    q = s.add_parser("edit")
    q.add_argument("path")
    q.add_argument("how", choices=("drop", "add", "as", "flat", "set"))
    q.add_argument("names", nargs="+")
    q.set_defaults(run=cmd_edit)

    q = s.add_parser("reference")
    q.add_argument("paths", nargs="+")
    q.set_defaults(run=cmd_reference)

    q = s.add_parser("show")
    q.add_argument("path")
    q.set_defaults(run=cmd_show)

    a = p.parse_args()
    try:
        a.run(a)
    except Wrong as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
