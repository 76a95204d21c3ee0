#!/usr/bin/env python3
"""Average a checkpoint with libcollctl by ctypes: average.py RANK SIZE STORE SECRET-FILE IN OUT, one process a rank.

COLLCTL_LIBRARY names the library (default: libcollctl.so.0, where the loader finds it)."""

import ctypes
import os
import sys

lib = ctypes.CDLL(os.environ.get("COLLCTL_LIBRARY", "libcollctl.so.0"))
lib.collctl_new.restype = ctypes.c_void_p
for name in ("set", "input", "output", "run", "code", "culprit", "rank", "size", "free"):
    getattr(lib, "collctl_" + name).argtypes = [ctypes.c_void_p]
lib.collctl_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
lib.collctl_input.argtypes = lib.collctl_output.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
lib.collctl_message.argtypes = [ctypes.c_void_p]
lib.collctl_message.restype = ctypes.c_char_p


def average(rank, size, store, secret_file, source, target):
    job = lib.collctl_new(b"allreduce")
    if not job:
        return 11, "no memory"
    settings = {"op": "avg", "rank": rank, "size": size, "rendezvous": store, "secret-file": secret_file}
    code = 0
    for name, value in settings.items():
        code = code or lib.collctl_set(job, name.encode(), str(value).encode())
    code = code or lib.collctl_input(job, os.fsencode(source)) or lib.collctl_output(job, os.fsencode(target))
    code = code or lib.collctl_run(job)
    message = lib.collctl_message(job).decode(errors="replace")
    lib.collctl_free(job)
    return code, message


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    code, message = average(*sys.argv[1:])
    if code:
        print(f"average: {message}", file=sys.stderr)
    sys.exit(code)
