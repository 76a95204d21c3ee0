#!/usr/bin/env python3
"""How true --progress is: jobs of four ranks on this host, whose JSON lines of rank 0 are recorded.

    progress.py [--mib N] [--folder DIR] [CASE...]

For each case: its seconds; the longest time in which `moved` stood although bytes went through a stage; and `left` over the
time that was left, after a third of the job, and its extremes until a tenth was left. COLLCTL names the program.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

RANKS = 4
COLLCTL = os.environ.get("COLLCTL", "build/collctl")
ALLREDUCE = ["allreduce", "--op", "avg", "in.{rank}.safetensors", "-o", "out.{rank}.safetensors", "--force"]
BROADCAST = ["broadcast", "--raw-file", "in.0.safetensors", "-o", "copy.{rank}", "--force"]
CASES = {
    "memory": ALLREDUCE + ["--insecure"],
    "tls": ALLREDUCE + ["--lanes", "tcp"],
    "limit": ALLREDUCE + ["--lanes", "tcp", "--limit-rate", "20M"],
    "windows": ALLREDUCE + ["--lanes", "tcp", "--limit-rate", "20M", "--memory", "32M"],
    "no-sync": ALLREDUCE + ["--lanes", "tcp", "--limit-rate", "20M", "--no-sync"],
    "broadcast": BROADCAST + ["--lanes", "tcp", "--limit-rate", "20M"],
    "update": BROADCAST + ["--lanes", "tcp", "--limit-rate", "20M", "--update"],
}


def make_inputs(mib, tensors=8):
    each = mib * 2**20 // tensors
    header = {f"layer.{k}": {"dtype": "F32", "shape": [each // 4], "data_offsets": [k * each, (k + 1) * each]} for k in range(tensors)}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    block = os.urandom(2**20)
    for rank in range(RANKS):
        with open(f"in.{rank}.safetensors", "wb") as f:
            f.write(len(head).to_bytes(8, "little") + head)
            for _ in range(tensors * each // len(block)):
                f.write(block)


def change_a_quarter(mib):
    """What update has to send: the rest is equal."""
    with open("in.0.safetensors", "r+b") as f:
        for at in range(0, mib, 4):
            f.seek((at << 20) + 4096)
            f.write(os.urandom(2**20))


def record(words):
    """The progress lines as (seconds, object), and the seconds at the end."""
    start = time.monotonic()
    job = subprocess.Popen([COLLCTL, "run", "-n", str(RANKS), "--"] + words + ["--progress", "json", "-q"], stderr=subprocess.PIPE, text=True)
    lines = []
    for line in job.stderr:
        if line.startswith('{"progress":'):
            lines.append((time.monotonic() - start, json.loads(line)["progress"]))
        else:
            print(line, end="")
    if job.wait():
        raise SystemExit(f"{words[0]} ended with {job.returncode}")
    return lines, time.monotonic() - start


def longest_stand(lines):
    """Without counts by stage, all that the job does between two lines counts as bytes."""
    longest, since = 0.0, None
    for (at, was), (now, new) in zip(lines, lines[1:]):
        stands = new["moved"] <= was["moved"] and new["phase"] in ("run", "commit") and was["phase"] in ("run", "commit")
        stands &= new.get("bytes") is None or new["bytes"] != was.get("bytes")
        since = (at if since is None else since) if stands else None
        longest = max(longest, now - since if stands else 0)
    return longest


def ratios(lines, end):
    """`left` over what was left, from a third of the job to nine tenths of it."""
    return [(at / end, p["left"] / (end - at)) for at, p in lines if end / 3 <= at <= 0.9 * end and p["left"] is not None]


def show(name, words, verbose):
    lines, end = record(words)
    if verbose:
        for at, p in lines:
            print(f"    {at:6.1f}  {p['phase']:8} {p['moved']:>12} of {p['total']}  left {p['left']} (in fact {end - at:.1f})  {p.get('bytes')}")
    found = ratios(lines, end)
    text = "too short"
    if found:
        text = f"{found[0][1]:.2f} at a third, {min(r for _, r in found):.2f} to {max(r for _, r in found):.2f} later"
    print(f"{name:10} {end:6.1f} s  stood {longest_stand(lines):.1f} s  left / true: {text}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--folder")
    parser.add_argument("-v", action="store_true")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    args = parser.parse_args()
    global COLLCTL
    COLLCTL = os.path.abspath(COLLCTL)
    with tempfile.TemporaryDirectory(prefix="collctl-bench-", dir=args.folder) as folder:
        os.chdir(folder)
        make_inputs(args.mib)
        for name in args.cases or CASES:
            if name == "update":
                record(BROADCAST)
                change_a_quarter(args.mib)
            os.sync()
            show(name, CASES[name], args.v)
        os.chdir("/")


if __name__ == "__main__":
    main()
