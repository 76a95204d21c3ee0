#!/usr/bin/env python3
"""Arrays of the types that oracle.py leaves out, and what collectives must make of them.

  dtypes.py make DTYPE P [--data D] [--big-endian] [--raw]    in.R.npy, in.R.bin of P ranks
  dtypes.py check KIND OP DTYPE P [--inputs N] [--raw]        out.R.npy, out.R.bin; of several, OP,OP...:
                                                              out.OP.R.npy

8-bit floats and bf16 are V1 and V2 in .npy. Data: exact (any order gives the same), special (zeros
of both signs, infinities, NaN), any (each byte at random; of floats and complex, canonical NaN).
"""

import argparse
import os
import sys

import numpy as np

import values

TYPES = {
    "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
    "u64": "U64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "f8e4m3": "F8_E4M3",
    "f8e5m2": "F8_E5M2", "bool": "BOOL", "c64": "C64", "c128": "C128",
}
DESCR = {"f8e4m3": "V1", "f8e5m2": "V1", "bf16": "V2", "bool": "?", "c64": "c8", "c128": "c16"}
SHAPE = (7, 13)
FINITE_LARGEST = {"F8_E4M3": 448.0}


def descr(dtype):
    return DESCR.get(dtype, dtype[0] + str(int(dtype[1:]) // 8) if dtype[1:].isdigit() else dtype)


def data_of(dtype, rank, data):
    rng = np.random.default_rng([rank, len(data), len(dtype)])
    count, t = int(np.prod(SHAPE)), TYPES[dtype]
    if t == "BOOL" and data != "exact":
        return rng.integers(0, 256, count, np.uint8).tobytes()  # what is not 0 is true
    if data == "special" and t[0] in "FBC":
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0]
        x = rng.choice(special, count)
        return values.encode(t, x + 0j if t[0] == "C" else x)
    if data == "any" and t[0] in "FBC":
        raw = rng.bytes(count * size_of(t))
        with np.errstate(invalid="ignore"):
            return values.encode(t, values.decode(t, raw))
    return values.encode(t, values.numbers(t, count, rng, "exact", rank))


def size_of(t):
    return 16 if t == "C128" else values.BITS[t] // 8


def identity(op, t):
    if t == "BOOL":
        return op in ("prod", "min", "band", "land")
    if t in values.INTEGERS:
        info = np.iinfo(values.INTEGERS[t])
        return {"min": info.max, "max": info.min, "band": info.max if info.min == 0 else -1}.get(
            op, op in ("prod", "land"))
    if op in ("min", "max"):
        return FINITE_LARGEST.get(t, np.inf) * (1 if op == "min" else -1)
    return 1.0 if op == "prod" else 0.0


def expected(kind, op, t, per_rank, rank):
    if kind == "scan":
        per_rank = per_rank[:rank + 1]
    elif kind == "exscan":
        per_rank = per_rank[:rank]
    if per_rank:
        return values.reduce(op, t, per_rank)
    count = int(np.prod(SHAPE))
    plain = values.INTEGERS.get(t, np.complex128 if t[0] == "C" else np.float64)
    return values.encode(t, np.full(count, identity(op, t), bool if t == "BOOL" else plain))


def name(stem, rank, k, raw):
    return f"{stem}.{rank}{f'.{k}' if k else ''}.{'bin' if raw else 'npy'}"


def cmd_make(a):
    d = np.dtype(descr(a.dtype))
    for r in range(a.size):
        for k in range(a.inputs):
            raw = data_of(a.dtype, r + 100 * k, a.data)
            if a.raw:
                with open(name("in", r, k, True), "wb") as f:
                    f.write(raw)
                continue
            x = np.frombuffer(raw, d).reshape(SHAPE)
            if a.big_endian:
                x = x.astype(d.newbyteorder(">"))
            np.save(name("in", r, k, False), x)


def check_file(path, a, d, want):
    if a.raw:
        with open(path, "rb") as f:
            got = f.read()
    else:
        x = np.load(path)
        if x.dtype != d or x.shape != SHAPE:
            return f"{path}: {x.dtype} {x.shape}"
        got = x.tobytes()
    if got == want:
        return None
    n = size_of(TYPES[a.dtype])
    at = next((i for i in range(0, len(want), n) if got[i:i + n] != want[i:i + n]), -1)
    return f"{path}: element {at // n} is {got[at:at + n].hex()}, expected {want[at:at + n].hex()}"


def cmd_check(a):
    t, d = TYPES[a.dtype], np.dtype(descr(a.dtype))
    with np.errstate(invalid="ignore"):
        per_rank = [[values.decode(t, data_of(a.dtype, r + 100 * k, a.data))
                     for k in range(a.inputs)] for r in range(a.size)]
    several = "," in a.op
    for op in a.op.split(","):
        for r in range(a.size):
            path = name(f"out.{op}" if several else "out", r, 0, a.raw)
            wrong = check_file(path, a, d, expected(a.kind, op, t, per_rank, r))
            if wrong:
                return f"{wrong} ({a.kind} {op} of {[[x[:8] for x in xs] for xs in per_rank]} ...)"
            os.remove(path)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    s = p.add_subparsers(required=True)
    for command, run in (("make", cmd_make), ("check", cmd_check)):
        q = s.add_parser(command)
        if command == "check":
            q.add_argument("kind", choices=("allreduce", "scan", "exscan"))
            q.add_argument("op")
        q.add_argument("dtype", choices=TYPES)
        q.add_argument("size", type=int)
        q.add_argument("--inputs", type=int, default=1)
        q.add_argument("--data", default="exact", choices=("exact", "special", "any"))
        q.add_argument("--raw", action="store_true")
        q.add_argument("--big-endian", action="store_true")
        q.set_defaults(run=run)
    a = p.parse_args()
    wrong = a.run(a)
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
