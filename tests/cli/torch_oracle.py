#!/usr/bin/env python3
"""The oracle of torch.bats: what tests/golden/torch/expected.json says of each file.

  torch_oracle.py check NAME OUT.safetensors   has OUT the tensors of NAME.pt or of dcp, bit for bit?
  torch_oracle.py described WANT.json OUT.safetensors  has OUT the tensors that torch_real.py has described?
  torch_oracle.py big OUT.pt BYTES [big]                      a file as torch.save writes it, of one tensor "w" of f32, 0 1 2 ...
  torch_oracle.py expand OUT.pt COUNT                  see below
  torch_oracle.py pieces FOLDER SHAPE BOX...           see below
  torch_oracle.py places PATH INFO OUT  are the places that INFO (`info --json PATH`) lists the bytes in OUT.safetensors?
  torch_oracle.py whole OUT.safetensors SHAPE          has OUT the whole tensor of `pieces`?
"""

import hashlib
import json
import os
import struct
import sys
import zipfile

import numpy as np

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "torch")
NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
         "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U16": "uint16", "U8": "uint8",
         "BOOL": "bool", "C64": "complex64", "U32": "uint32", "U64": "uint64", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
         "F8_E5M2FNUZ": "float8_e5m2fnuz"}

VIEWS = ("transposed", "column", "steps", "expanded", "w1")  # in another order than C order: of views.pt, of the folders


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    assert head.pop("__metadata__") == {"format": "pt"}
    return head, data[8 + n:]


def compare(want, out):
    head, data = read(out)
    assert set(head) == set(want), set(head) ^ set(want)
    for tensor, t in head.items():
        begin, end = t["data_offsets"]
        assert NAMES[t["dtype"]] == want[tensor]["dtype"], tensor
        assert t["shape"] == want[tensor]["shape"], tensor
        assert hashlib.sha256(data[begin:end]).hexdigest() == want[tensor]["sha256"], tensor


def load(path):
    with open(path, encoding="utf8") as f:
        return json.load(f)


def check(name, out):
    compare(load(f"{GOLDEN}/expected.json")[name] if name.endswith(".pt") else load(f"{GOLDEN}/dcp.json"), out)


def described(path, out):
    compare(load(path), out)


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def integer(n):
    return b"\x8a\x08" + struct.pack("<q", n)


def tensor(key, count, shape=None, stride=1):
    """w as torch.save has it: _rebuild_tensor_v2(storage, 0, (shape,), (stride,), False, {})."""
    shape = count if shape is None else shape
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") +
            integer(count) + b"tQK\x00" + integer(shape) + b"\x85" + integer(stride) + b"\x85\x89}tR")


def big(out, nbytes, order="little"):
    count, dtype = int(nbytes) // 4, "<f4" if order == "little" else ">f4"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        z.writestr("big/data.pkl", b"\x80\x02}" + text("w") + tensor("0", count) + b"s.")
        z.writestr("big/byteorder", order)
        with z.open("big/data/0", "w", force_zip64=True) as f:
            for at in range(0, count, 1 << 20):
                f.write(np.arange(at, min(at + (1 << 20), count), dtype=dtype).tobytes())


def expand(out, count):
    """One element, repeated @count times by a stride of 0."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        z.writestr("x/data.pkl", b"\x80\x02}" + text("w") + tensor("0", 1, int(count), 0) + b"s.")
        z.writestr("x/data/0", np.float32(7).tobytes())


def pieces(folder, shape, *boxes):
    """Pieces of one tensor "w" of f32, 0 1 2 ..., each a file: boxes as "0:2,1:4"."""
    os.mkdir(folder)
    whole = np.arange(np.prod([int(n) for n in shape.split(",")]), dtype=np.float32).reshape([int(n) for n in shape.split(",")])
    for i, box in enumerate(boxes):
        cut = [tuple(int(n) for n in axis.split(":")) for axis in box.split(",")]
        data = np.ascontiguousarray(whole[tuple(slice(a, b) for a, b in cut)]).tobytes()
        info = json.dumps({"w": {"saved_offsets": [a for a, _ in cut]}})
        head = json.dumps({"__metadata__": {"DCP_VERSION": "1.0", "format": "pt", "DCP_SHARDING_INFO": info},
                           "w": {"dtype": "F32", "shape": [b - a for a, b in cut], "data_offsets": [0, len(data)]}}).encode()
        with open(f"{folder}/shard-{i}.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + data)


def whole(out, shape):
    shape = [int(n) for n in shape.split(",")]
    head, data = read(out)
    assert head["w"]["shape"] == shape, head
    assert np.array_equal(np.frombuffer(data, np.float32).reshape(shape), np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def places(path, info, out):
    """Are the pieces that INFO (of `info --json`) lists the bytes of the tensors in OUT?"""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    head, data = read(out)
    with open(info, encoding="utf8") as f:
        said = json.load(f)["tensors"]
    assert sorted(t["name"] for t in said) == sorted(head)
    for t in said:
        found = b""
        for p in t["pieces"]:
            with open(os.path.join(folder, p["file"]), "rb") as f:
                f.seek(p["offset"])
                found += f.read(p["bytes"])
        begin, end = head[t["name"]]["data_offsets"]
        assert found in (b"", data[begin:end]), t["name"]
        assert found or t["bytes"] == 0 or t["name"] in VIEWS, t["name"]


def main():
    {"check": check, "described": described, "big": big, "pieces": pieces, "expand": expand, "whole": whole, "places": places}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
