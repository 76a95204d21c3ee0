#!/usr/bin/env python3
"""What a process holds of a secret, seen from outside (as root, or as its tracer).

  memory_scan.py scan PID TEXT...   is TEXT, or what TEXT is the hex of, in memory that PID can write?

Prints where each was found; the exit code says whether any was: 0 none, 1 some, 77 its memory can't be read.
"""

import re
import sys


def forms(text):
    """The byte strings to look for: the text, and the bytes that it is the hex of."""
    yield "text", text.encode()
    if re.fullmatch(r"([0-9a-f]{2}){16,}", text):
        yield "bytes", bytes.fromhex(text)


def writable(pid):
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            span, mode, _, _, _, *name = line.split(maxsplit=5)
            if mode.startswith("rw"):
                lo, hi = (int(x, 16) for x in span.split("-"))
                yield lo, hi, name[0].strip() if name else "anonymous"


def scan(pid, texts):
    found = 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for lo, hi, name in writable(pid):
            try:
                memory.seek(lo)
                data = memory.read(hi - lo)
            except (OSError, ValueError, OverflowError):
                continue  # [vvar]
            for n, text in enumerate(texts):
                for form, needle in forms(text):
                    at = data.find(needle)
                    while at >= 0:
                        found += 1
                        print(f"number {n} as {form} at {lo + at:#x} in {name}")
                        at = data.find(needle, at + 1)
    return found


def main():
    _, pid, *texts = sys.argv[1:]
    try:
        sys.exit(1 if scan(int(pid), texts) else 0)
    except PermissionError as e:
        print(e)
        sys.exit(77)


if __name__ == "__main__":
    main()
