#!/usr/bin/env python3
"""An allreduce between hosts whose links differ, against the bound of a direct exchange.

  tests/bench/networks.py [--rounds 5] [--only TEXT] [--other COLLCTL] [--algorithms auto,direct,...]

Hosts are network namespaces on a bridge (predict.py); a token bucket shapes both ends of each link.
Jobs are whole jobs over TLS from files to files, not synced, one rank a host; every rank is given its
--link-rate. The figure is the median of the run phases over the bound: all bytes at the sum of the
rates, 2S(P-1)/sum b, or the slowest host's own vector, S/min b, whichever is longer; of equal links
these are 2S(P-1)/P at the rate of one. --other is another program, which is not given the rates; all
sides of a case alternate. Needs root and iproute2; without them it says so and ends with 77.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile

import predict
from predict import COLLCTL, Net, Unavailable, command

MIB = 1 << 20
CASES = [  # Mbit/s of each host, bytes, the most that the figure may be
    ((400, 400, 400, 200), 16 * MIB, 1.12),
    ((400,) * 7 + (200,), 16 * MIB, 1.12),
    ((400, 400, 400, 40), 8 * MIB, 1.12),
    ((1000,) * 4, 128 * MIB, 1.06),
    ((1000,) * 4, 32 * MIB, 1.15),
]


def bound(mbit, nbytes):
    rates = [m * 125e3 for m in mbit]
    return max(2 * nbytes * (len(rates) - 1) / sum(rates), nbytes / min(rates))


def job(net, folder, program, mbit, *options):
    """The run phase in seconds, and the algorithm."""
    started = [net.start(r, program, "allreduce", "--dtype", "f32", f"in.{r}.raw", "-o", f"out.{r}.raw", "--force",
                         "-r", str(r), "-H", "hosts", "--json", "--no-sync", "--secret-file", "key",
                         *options, *(["--link-rate", f"{m}Mbit"] if program == COLLCTL else []), cwd=folder)
               for r, m in enumerate(mbit)]
    said = [p.communicate(timeout=predict.LIMIT) for p in started]
    for p, (_, err) in zip(started, said):
        if p.returncode:
            sys.exit(f"networks: exit code {p.returncode}\n{err}")
    ranks = [json.loads(out) for out, _ in said]
    if len({r["digest"] for r in ranks}) != 1:
        sys.exit("networks: the ranks have different results")
    return max(r["seconds"]["run"] for r in ranks), ranks[0]["algorithm"]


def case(folder, mbit, nbytes, most, sides, rounds):
    net = Net(len(mbit))
    try:
        net.open()
        net.shape(mbit)
        with open(f"{folder}/hosts", "w", encoding="utf8") as f:
            f.writelines(f"{net.address(r)}\n" for r in range(net.size))
        for r in range(net.size):
            with open(f"{folder}/in.{r}.raw", "wb") as f:
                f.truncate(nbytes)
        took = {name: [] for name, _, _ in sides}
        for i in range(rounds + 1):  # the first is not counted
            for name, program, options in sides:
                seconds, algorithm = job(net, folder, program, mbit, *options)
                if i:
                    took[name].append((seconds, algorithm))
    finally:
        net.close()
    least = bound(mbit, nbytes)
    rates = f"{len(mbit)} x {mbit[0]}" if len(set(mbit)) == 1 else ", ".join(map(str, mbit))
    for name, program, options in sides:
        median = statistics.median(s for s, _ in took[name])
        target = f", target {most}" if program == COLLCTL and not options else ""
        print(f"{rates:40} {nbytes // MIB:4} MiB  {name:24} {took[name][0][1]:14} {median:7.3f} s, "
              f"bound {least:.3f} s: {median / least:.2f}{target}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="cases whose rates begin so, such as '400,400,400,200'")
    p.add_argument("--other", help="another program to compare with")
    p.add_argument("--algorithms", default="auto")
    a = p.parse_args()
    for v in list(os.environ):
        if v.startswith("COLLCTL"):
            del os.environ[v]
    sides = [(n, COLLCTL, () if n == "auto" else ("-a", n)) for n in a.algorithms.split(",")]
    if a.other:
        sides.append(("auto of the other program", os.path.abspath(a.other), ()))
    folder = tempfile.mkdtemp(prefix="collctl-bench.", dir=os.environ.get("TMPDIR", "/var/tmp"))
    try:
        predict.environment(None)
        command(COLLCTL, "keygen", f"{folder}/key")
        for mbit, nbytes, most in CASES:
            if ",".join(map(str, mbit)).startswith(a.only):
                case(folder, mbit, nbytes, most, sides, a.rounds)
    except Unavailable as e:
        print(f"networks: skipped: {e}")
        return 77
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
