#!/usr/bin/env python3
"""An allreduce or a broadcast between hosts whose links differ, against the bound.

  tests/bench/networks.py [--rounds 5] [--only TEXT] [--other COLLCTL] [--algorithms auto,direct,...]

Hosts are network namespaces on a bridge (predict.py); a token bucket shapes both ends of each link.
Jobs are whole jobs over TLS from files to files, not synced, one rank a host; every rank is given its
--link-rate. The figure is the median of the run phases over the bound (lib/price/fill.h). Of an
allreduce: all bytes at the sum of the rates, 2S(P-1)/sum b, or the slowest host's own vector, S/min b,
whichever is longer; of equal links these are 2S(P-1)/P at the rate of one. Of a broadcast, from rank
0: P-1 copies at the sum of the rates out, the root's own copy, or the slowest host's one in. --other
is another program, which is not given the rates; all sides of a case alternate. Needs root and
iproute2; without them it says so and ends with 77.
"""

import argparse
import json
import os
import statistics
import sys

import predict
from common import COLLCTL, forget_settings
from predict import Net

MIB = 1 << 20
CASES = [  # the collective, Mbit/s of each host or (up, down), bytes, the most that the figure may be
    ("allreduce", (400, 400, 400, 200), 16 * MIB, 1.12),
    ("allreduce", (400,) * 7 + (200,), 16 * MIB, 1.12),
    ("allreduce", (400, 400, 400, 40), 8 * MIB, 1.12),
    ("allreduce", (1000,) * 4, 128 * MIB, 1.06),
    ("allreduce", (1000,) * 4, 32 * MIB, 1.15),
    ("broadcast", (100,) + ((20, 100),) * 3, 32 * MIB, 1.3),
    ("broadcast", (400, 400, (40, 400), (40, 400)), 64 * MIB, 1.6),
    ("broadcast", (200,) + ((50, 200),) * 7, 32 * MIB, 1.25),
    ("broadcast", (400, 400, 400, 200), 32 * MIB, 1.2),
]


def both(rate):
    return (rate, rate) if isinstance(rate, int) else rate


def bound(collective, mbit, nbytes):
    up = [both(m)[0] * 125e3 for m in mbit]
    down = [both(m)[1] * 125e3 for m in mbit]
    if collective == "broadcast":
        return nbytes * max((len(up) - 1) / sum(up), 1 / up[0], 1 / min(down[1:]))
    rates = [min(r) for r in zip(up, down)]
    return max(2 * nbytes * (len(rates) - 1) / sum(rates), nbytes / min(rates))


def job(net, folder, program, collective, mbit, *options):
    """The run phase in seconds, and the algorithm."""
    started = [net.start(r, program, collective, "--dtype", "f32", f"in.{r}.raw", "-o", f"out.{r}.raw", "--force",
                         "-r", str(r), "-H", "hosts", "--json", "--no-sync", "--secret-file", "key",
                         *options, *(["--link-rate", "{}Mbit,{}Mbit".format(*both(m))] if program == COLLCTL else []),
                         cwd=folder)
               for r, m in enumerate(mbit)]
    said = [p.communicate(timeout=predict.LIMIT) for p in started]
    for p, (_, err) in zip(started, said):
        if p.returncode:
            sys.exit(f"networks: exit code {p.returncode}\n{err}")
    ranks = [json.loads(out) for out, _ in said]
    if len({r["digest"] for r in ranks}) != 1:
        sys.exit("networks: the ranks have different results")
    return max(r["seconds"]["run"] for r in ranks), ranks[0]["algorithm"]


def case(folder, collective, mbit, nbytes, most, sides, rounds):
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
                seconds, algorithm = job(net, folder, program, collective, mbit, *options)
                if i:
                    took[name].append((seconds, algorithm))
    finally:
        net.close()
    least = bound(collective, mbit, nbytes)
    each = [str(m) if isinstance(m, int) else f"{m[0]}/{m[1]}" for m in mbit]
    rates = f"{len(mbit)} x {each[0]}" if len(set(mbit)) == 1 else ",".join(each)
    for name, program, options in sides:
        median = statistics.median(s for s, _ in took[name])
        target = f", target {most}" if program == COLLCTL and not options else ""
        print(f"{collective} {rates:40} {nbytes // MIB:4} MiB  {name:24} {took[name][0][1]:14} {median:7.3f} s, "
              f"bound {least:.3f} s: {median / least:.2f}{target}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="cases that begin so, such as 'broadcast'")
    p.add_argument("--other", help="another program to compare with")
    p.add_argument("--algorithms", default="auto")
    a = p.parse_args()
    forget_settings()
    sides = [(n, COLLCTL, () if n == "auto" else ("-a", n)) for n in a.algorithms.split(",")]
    if a.other:
        sides.append(("auto of the other program", os.path.abspath(a.other), ()))

    def work(folder):
        for words in CASES:
            if words[0].startswith(a.only):
                case(folder, *words, sides, a.rounds)

    return predict.in_folder("networks", work)


if __name__ == "__main__":
    sys.exit(main())
