#!/usr/bin/env python3
"""Hostile .safetensors files and sharded sets, all of which must be refused.

  broken.py               the names of all
  broken.py WHAT PATH     make one; names that begin with "set-" are folders
"""

import json
import os
import struct
import sys

INDEX = "model.safetensors.index.json"


def dump(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def a_and_b(a, b, data=16):
    return dump({"a": a, "b": b}, bytes(data))


def raw_header(text, data=b""):
    return struct.pack("<Q", len(text)) + text + data


GOOD = dump({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 8, 16)}, bytes(16))
BROKEN = {
    "empty": b"", "short": b"\x01\0\0", "cut-in-header": GOOD[:30], "cut-in-data": GOOD[:-1],
    "trailing": GOOD + b"\0",
    "huge-header": struct.pack("<Q", 2**63) + GOOD[8:], "large-header": struct.pack("<Q", 100_000_001) + GOOD[8:],
    "hole": a_and_b(entry("F32", [1], 0, 4), entry("F32", [2], 8, 16)),
    "late": a_and_b(entry("F32", [1], 4, 8), entry("F32", [2], 8, 16)),
    "overlap": a_and_b(entry("F32", [2], 0, 8), entry("F32", [3], 4, 16)),
    "backwards": a_and_b(entry("F32", [2], 8, 0), entry("F32", [2], 8, 16)),
    "size": a_and_b(entry("F32", [3], 0, 8), entry("F32", [2], 8, 16)),
    "overflow": a_and_b(entry("F32", [2**62, 4, 2], 0, 8), entry("F32", [2], 8, 16)),
    "negative": a_and_b(entry("F32", [-2], 0, 8), entry("F32", [2], 8, 16)),
    "fraction": a_and_b(entry("F32", [2.0], 0, 8), entry("F32", [2], 8, 16)),
    "half-byte": dump({"a": entry("F4", [3], 0, 1)}, bytes(1)),
    "dtype": a_and_b(entry("F33", [2], 0, 8), entry("F32", [2], 8, 16)),
    "no-dtype": dump({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
    "no-object": dump({"a": 5}, b""), "array": raw_header(b"[1]"), "space-first": raw_header(b" {}"),
    "twice": raw_header(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                        b'"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"12"),
    "twice-escaped": raw_header(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                b'"\\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"12"),
    "utf8": raw_header(b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1"),
    "nul": raw_header(b'{"a\\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"1"),
    "metadata": dump({"__metadata__": {"a": 1}, "a": entry("U8", [1], 0, 1)}, b"1"),
    "deep": raw_header(b'{"a":' + b"[" * 100000, b""),
    "json": raw_header(b'{"a":', b""),
}


def shard(*names):
    return dump({n: entry("F32", [2], 8 * i, 8 * i + 8) for i, n in enumerate(names)}, bytes(8 * len(names)))


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def broken_set(what, path):
    """Sets: an index, or files, that contradict one another."""
    os.makedirs(path)
    write(f"{path}/one.safetensors", shard("a", "b"))
    write(f"{path}/two.safetensors", shard("c"))
    weight_map = {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"}
    if what == "set-outside":
        write(f"{path}/../elsewhere.safetensors", shard("c"))
        weight_map["c"] = "../elsewhere.safetensors"
    elif what == "set-absolute":
        weight_map["c"] = os.path.abspath(f"{path}/two.safetensors")
    elif what == "set-missing-shard":
        os.remove(f"{path}/two.safetensors")
    elif what == "set-missing-tensor":
        weight_map["d"] = "two.safetensors"
    elif what == "set-wrong-shard":
        weight_map["c"] = "one.safetensors"
    elif what == "set-no-file":
        weight_map["c"] = 5
    elif what == "set-empty-name":
        weight_map["c"] = ""
    elif what == "set-not-json":
        weight_map = None
    text = json.dumps({"weight_map": weight_map}) if weight_map else "{"
    if what == "set-twice":
        write(f"{path}/two.safetensors", shard("a", "c"))
        return
    if what == "set-no-map":
        text = "{}"
    write(f"{path}/{INDEX}", text.encode())


BROKEN_SETS = ("set-outside", "set-absolute", "set-missing-shard", "set-missing-tensor", "set-wrong-shard",
               "set-no-file", "set-empty-name", "set-not-json", "set-twice", "set-no-map")


def main():
    if len(sys.argv) == 1:
        print("\n".join([*BROKEN, *BROKEN_SETS]))
    elif sys.argv[1] in BROKEN_SETS:
        broken_set(*sys.argv[1:])
    else:
        write(sys.argv[2], BROKEN[sys.argv[1]])


if __name__ == "__main__":
    main()
