"""Files of every format, written and read without the libraries under test, for the tests of the
command: `from files import *`. Arrays are numpy's; of .safetensors and .npz dicts of them by name."""

import io
import json
import os
import struct
import zipfile

import numpy as np

SAFE = {
    "b1": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "i4": "I32", "u4": "U32", "i8": "I64",
    "u8": "U64", "f2": "F16", "f4": "F32", "f8": "F64", "c8": "C64",
}  # fmt: skip
OF_SAFE = {name: dtype for dtype, name in SAFE.items()}


def some(dtype, shape, seed):
    """Small whole numbers, whose sums are exact in every order and type."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 9, shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.integers(-9, 9, shape)
    return a.astype(dtype)


def save_safetensors(path, tensors, metadata=None, order=None):
    head, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name in order or tensors:
        a = tensors[name]
        raw = a.astype(a.dtype.newbyteorder("<")).tobytes()
        ends = [len(data), len(data) + len(raw)]
        head[name] = {"dtype": SAFE[a.dtype.str[1:]], "shape": list(a.shape), "data_offsets": ends}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load_safetensors(path):
    with open(path, "rb") as f:
        whole = f.read()
    n = struct.unpack_from("<Q", whole)[0]
    head, data, out = json.loads(whole[8 : 8 + n]), whole[8 + n :], {}
    for name, t in head.items():
        if name != "__metadata__":
            b, e = t["data_offsets"]
            out[name] = np.frombuffer(data[b:e], "<" + OF_SAFE[t["dtype"]]).reshape(t["shape"])
    assert sum(a.nbytes for a in out.values()) == len(data), path
    return out


INDEX = "model.safetensors.index.json"


def save_set(folder, shards):
    """shards: {file: {name: array}}"""
    os.makedirs(folder, exist_ok=True)
    where = {name: file for file, tensors in shards.items() for name in tensors}
    total = sum(a.nbytes for tensors in shards.values() for a in tensors.values())
    for file, tensors in shards.items():
        save_safetensors(f"{folder}/{file}", tensors)
    with open(f"{folder}/{INDEX}", "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": where}, f)


def load_set(folder):
    with open(f"{folder}/{INDEX}") as f:
        where = json.load(f)["weight_map"]
    out = {}
    for file in set(where.values()):
        out.update(load_safetensors(f"{folder}/{file}"))
    assert set(out) == set(where), folder
    return out


def load(path):
    """{name: array}; of one array its name is ''."""
    if os.path.isdir(path):
        return load_set(path)
    if path.endswith(".npz"):
        assert zipfile.ZipFile(path).testzip() is None, path
        with np.load(path) as z:
            return {name: z[name] for name in z.files}
    return load_safetensors(path) if path.endswith(".safetensors") else {"": np.load(path)}


def check(path, want):
    """Is `path` an array, or a dict of them, of exactly these types, shapes and bits?"""
    got, want = load(path), want if isinstance(want, dict) else {"": want}
    assert set(got) == set(want), f"{path}: has {sorted(got)} instead of {sorted(want)}"
    for name, w in want.items():
        w = np.asarray(w)
        w = w.astype(w.dtype.newbyteorder("<"))
        g, at = got[name], f"{path}: {name!r}:"
        assert (g.dtype, g.shape) == (w.dtype, w.shape), f"{at} {g.dtype} {g.shape} instead of {w.dtype} {w.shape}"
        assert g.tobytes() == w.tobytes(), f"{at} other values"


def in_fortran(path):
    """Does the .npy file say that it lies in Fortran's order?"""
    with open(path, "rb") as f:
        return header_in_fortran(f)


def header_in_fortran(f):
    assert np.lib.format.read_magic(f) == (1, 0)
    return np.lib.format.read_array_header_1_0(f)[1]


def npz_in_fortran(path):
    with zipfile.ZipFile(path) as z:
        return {n: header_in_fortran(io.BytesIO(z.read(n))) for n in z.namelist()}
