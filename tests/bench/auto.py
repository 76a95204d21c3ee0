#!/usr/bin/env python3
"""How good is auto's choice? Every algorithm of every collective is measured on this machine, and
the time of the one that auto takes is compared with the time of the fastest.

  tests/bench/auto.py [--ranks 2,4] [--lanes tcp|memory] [--plain] [--rounds N] [--untuned] [COLLECTIVE...]

Measured by `collctl bench` (in memory, one job a collective and number of ranks), N times and N
times again; a time is the median of the rounds' medians. The first half decides which algorithm is
the fastest, the second half compares it with auto's choice: so luck does not
count. Auto chooses by its built-in rates and, without --untuned, by the tuning file that the
first half has written. Algorithms that need --allow-divergent don't count. Last come the misses:
cases in which the choice takes more than 1.1 times as long.

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
SIZES = ["-b", "4K", "-e", "64M", "-f", "4"]
GOOD = 1.1

COLLECTIVES = ["allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "gather", "scatter",
               "alltoall", "scan", "exscan"]


def bench(size, collective, *options):
    """The rows of rank 0."""
    words = [COLLCTL, "run", "-n", str(size), "--", "bench", collective, *SIZES, "--json", *options]
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


def typical(rounds):
    """{(bytes, algorithm): seconds}, medians of several rounds' rows."""
    times = {}
    for rows in rounds:
        for row in rows:
            times.setdefault((row["size"], row["algorithm"]), []).append(row["seconds"]["p50"])
    return {key: statistics.median(all_times) for key, all_times in times.items()}


def choices(size, collective, options):
    rows = bench(size, collective, "-a", "auto", "-w", "0", "--iters", "1", *options)
    return {row["size"]: row["algorithm"] for row in rows}


def judge(size, collective, options, rounds, tuned, folder, ratios, misses):
    tuning = f"{folder}/{collective}.{size}.json"
    sweep = [*options, "-a", "all", "--iters", "30"]
    written = ["--tuning-out", tuning] if tuned else []
    first, second = (typical(bench(size, collective, *sweep, *more) for _ in range(rounds))
                     for more in (written, []))
    chosen = {"built-in": choices(size, collective, options)}
    if tuned:
        chosen["tuned"] = choices(size, collective, [*options, "--tuning", tuning])
    for nbytes in sorted({b for b, _ in first}):
        here = {a: t for (b, a), t in second.items() if b == nbytes}
        best = min(here, key=lambda a: first[nbytes, a])
        line = f"{collective:15}{size:5} {nbytes:>10}  {best:18} {here[best] * 1e6:9.0f} us"
        for way, taken in chosen.items():
            ratio = here[taken[nbytes]] / here[best]
            ratios[way].append(ratio)
            if ratio > GOOD:
                misses.append(f"{way:10}{collective:15}{size:3} {nbytes:>10}  {taken[nbytes]} takes {ratio:.2f} "
                              f"times as long as {best}")
            line += f"  {taken[nbytes]:18} {ratio:5.2f}"
        print(line, flush=True)


def numbers(words):
    return [int(w) for w in words.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", type=numbers, default=[2, 4])
    p.add_argument("--lanes", choices=["tcp", "memory"], default="tcp")
    p.add_argument("--plain", action="store_true", help="--insecure instead of TLS")
    p.add_argument("--rounds", type=int, default=3, help="sweeps to tune by, and to judge by")
    p.add_argument("--untuned", action="store_true", help="only the built-in rates: half of the time")
    p.add_argument("collective", nargs="*", default=COLLECTIVES)
    a = p.parse_args()

    for v in list(os.environ):
        if v.startswith("COLLCTL"):
            del os.environ[v]
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} before, "
          f"{'memory' if a.lanes == 'memory' else 'plain TCP' if a.plain else 'TLS'}")
    options = ["--lanes", a.lanes, *(["--insecure"] if a.plain else [])]
    print(f"{'collective':15}ranks      bytes  fastest                         "
          f"auto: built-in     ratio  tuned              ratio")
    ratios, misses = {"built-in": [], "tuned": []}, []
    with tempfile.TemporaryDirectory(prefix="collctl-auto.") as folder:
        for collective in a.collective:
            for size in a.ranks:
                judge(size, collective, options, a.rounds, not a.untuned, folder, ratios, misses)
    print()
    print("\n".join(misses))
    for way, all_ratios in ratios.items():
        if not all_ratios:
            continue
        good = sum(r <= GOOD for r in all_ratios)
        print(f"{way}: within {GOOD - 1:.0%} of the fastest in {good} of {len(all_ratios)} cases; "
              f"median {statistics.median(all_ratios):.2f}, worst {max(all_ratios):.2f}")


if __name__ == "__main__":
    main()
