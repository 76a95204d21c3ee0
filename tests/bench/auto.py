#!/usr/bin/env python3
"""How good is auto's choice? Every algorithm of every collective is measured on this machine, and
the time of the one that auto takes is compared with the time of the fastest.

  tests/bench/auto.py [--ranks 2,4] [--plain] [--rounds N] [COLLECTIVE...]

Measured by `collctl bench` (in memory, one job a collective and number of ranks), N times over; a
time is the least of all iterations, which other work on the machine disturbs least. Auto chooses
twice: by its built-in rates, and by the tuning file that the first half of the rounds has written;
both choices are judged by the second half. The ones that need --allow-divergent don't count.

Iterations follow one another without a barrier, so for collectives in which no rank waits for the
last to be done (broadcast, reduce, gather, scatter, scan) a time is how often one can be done in a
second, not how long one takes, which is what the built-in rates are for.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLCTL = os.path.abspath(os.environ.get("COLLCTL", f"{ROOT}/build/collctl"))
LIMIT = 900  # seconds for one command
SIZES = ["-b", "4K", "-e", "16M", "-f", "16"]
GOOD = 1.1

COLLECTIVES = ["allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "gather", "scatter",
               "alltoall", "scan", "exscan"]


def bench(size, collective, plain, *options):
    """The rows of rank 0."""
    words = [COLLCTL, "run", "-n", str(size), "--", "bench", collective, *SIZES, "--json", *options,
             *(["--insecure"] if plain else [])]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    if done.returncode:
        sys.exit(f"auto: {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    decoder = json.JSONDecoder()
    results, at = [], 0
    while at < len(done.stdout.rstrip()):
        value, end = decoder.raw_decode(done.stdout, at)
        results.append(value)
        at = end + len(done.stdout[end:]) - len(done.stdout[end:].lstrip())
    return next(r for r in results if r["rank"] == 0)["rows"]


def least(rounds):
    """{(bytes, algorithm): seconds} of several rounds' rows."""
    times = {}
    for rows in rounds:
        for row in rows:
            key = row["size"], row["algorithm"]
            times[key] = min(times.get(key, 1e9), row["seconds"]["min"])
    return times


def choices(size, collective, plain, *options):
    rows = bench(size, collective, plain, "-a", "auto", "-w", "0", "--iters", "1", *options)
    return {row["size"]: row["algorithm"] for row in rows}


def judge(size, collective, plain, rounds, folder, ratios):
    tuning = f"{folder}/{collective}.{size}.json"
    sweep = ["-a", "all", "--iters", "20"]
    for _ in range(rounds):
        bench(size, collective, plain, *sweep, "--tuning-out", tuning)
    times = least(bench(size, collective, plain, *sweep) for _ in range(rounds))
    chosen = {"built-in": choices(size, collective, plain),
              "tuned": choices(size, collective, plain, "--tuning", tuning)}
    for nbytes in sorted({b for b, _ in times}):
        here = {a: t for (b, a), t in times.items() if b == nbytes}
        best = min(here, key=here.get)
        line = f"{collective:15}{size:5} {nbytes:>10}  {best:18} {here[best] * 1e6:9.0f} us"
        for way, taken in chosen.items():
            ratio = here[taken[nbytes]] / here[best]
            ratios[way].append(ratio)
            line += f"  {taken[nbytes]:18} {ratio:5.2f}"
        print(line, flush=True)


def numbers(words):
    return [int(w) for w in words.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", type=numbers, default=[2, 4])
    p.add_argument("--plain", action="store_true", help="--insecure instead of TLS")
    p.add_argument("--rounds", type=int, default=3, help="sweeps to tune by, and to judge by")
    p.add_argument("collective", nargs="*", default=COLLECTIVES)
    a = p.parse_args()

    for v in list(os.environ):
        if v.startswith("COLLCTL"):
            del os.environ[v]
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} before, "
          f"{'plain TCP' if a.plain else 'TLS'}")
    print(f"{'collective':15}ranks      bytes  fastest                         "
          f"auto: built-in     ratio  tuned              ratio")
    ratios = {"built-in": [], "tuned": []}
    with tempfile.TemporaryDirectory(prefix="collctl-auto.") as folder:
        for collective in a.collective:
            for size in a.ranks:
                judge(size, collective, a.plain, a.rounds, folder, ratios)
    print()
    for way, all_ratios in ratios.items():
        good = sum(r <= GOOD for r in all_ratios)
        print(f"{way}: within {GOOD - 1:.0%} of the fastest in {good} of {len(all_ratios)} cases; "
              f"median {statistics.median(all_ratios):.2f}, worst {max(all_ratios):.2f}")


if __name__ == "__main__":
    main()
