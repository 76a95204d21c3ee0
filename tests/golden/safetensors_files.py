"""Write .safetensors files with the reference library, to hold ours against.

    pip install safetensors
    python safetensors_files.py FOLDER [RANDOM]

FOLDER gets the golden files of this folder (safetensors 0.8.0), and RANDOM files of random tensors.
"""

import ctypes
import os
import random
import sys

from safetensors import TensorSpec, serialize

# The library's name and the bits of each type that it can be given.
TYPES = {
    "bool": 8, "uint8": 8, "int8": 8, "float8_e5m2": 8, "float8_e4m3fn": 8,
    "float8_e8m0fnu": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "int16": 16, "uint16": 16,
    "float16": 16, "bfloat16": 16, "int32": 32, "uint32": 32, "float32": 32, "complex64": 64,
    "float64": 64, "int64": 64, "uint64": 64, "float4_e2m1fn_x2": 8,
}  # fmt: skip


def write(path, tensors, metadata=None):
    """tensors: {name: (type, shape)}; the bytes count up."""
    keep, specs = [], {}
    for name, (dtype, shape) in tensors.items():
        n = TYPES[dtype] // 8
        for d in shape:
            n *= d
        data = ctypes.create_string_buffer(bytes(i % 251 for i in range(n)), max(n, 1))
        keep.append(data)
        specs[name] = TensorSpec(
            dtype=dtype, shape=shape, data_ptr=ctypes.addressof(data), data_len=n
        )
    with open(path, "wb") as f:
        f.write(serialize(specs, metadata=metadata))


def golden(folder):
    write(f"{folder}/empty.safetensors", {})
    write(f"{folder}/types.safetensors", {t: (t, [2, 3]) for t in TYPES}, {"format": "pt"})
    write(
        f"{folder}/names.safetensors",
        {
            'quote " back \\ slash /': ("float32", [2]),
            "control \n\r\t\b\f\x01\x1f\x7f": ("float32", []),
            "ü \u2028 \U0001f600": ("float32", [0, 7]),
            "b.10": ("float32", [1]),
            "b.9": ("float32", [1]),
            "B": ("float32", [1]),
            "": ("float32", [1, 1, 1]),
        },
        {"note": 'a "quoted" \u00fc\n\x02'},
    )


def some_name(r):
    return "".join(r.choice('abAB019._-"\\\n\x03é\u2028\U0001f600/') for _ in range(r.randrange(12)))


def randoms(folder, n, seed):
    r = random.Random(seed)
    for i in range(n):
        tensors = {
            some_name(r): (
                r.choice(list(TYPES)),
                [r.randrange(4) for _ in range(r.randrange(4))],
            )
            for _ in range(r.randrange(12))
        }
        for name, (dtype, shape) in tensors.items():
            if dtype.startswith("float4") and not shape:
                tensors[name] = (dtype, [1])
        metadata = {some_name(r): some_name(r)} if tensors and r.randrange(2) else None
        write(f"{folder}/random{i}.safetensors", tensors, metadata)


if __name__ == "__main__":
    golden(sys.argv[1])
    if len(sys.argv) > 2:
        randoms(sys.argv[1], int(sys.argv[2]), int(os.environ.get("SEED", "1")))
