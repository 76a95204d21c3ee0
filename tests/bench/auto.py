#!/usr/bin/env python3
"""How good is auto's choice? Every algorithm of every collective is measured on this machine, and
the time of the one that auto takes is compared with the time of the fastest.

  tests/bench/auto.py [--ranks 2,4 | --hosts 4x1,4x4] [--lanes tcp|memory] [--plain] [--rounds N]
                      [--untuned] [COLLECTIVE...]

Measured by `collctl bench` (in memory, one job a collective and number of ranks), N times and N
times again; a time is the median of the rounds' medians. The first half decides which algorithm is
the fastest, the second half compares it with auto's choice: so luck does not count.
Auto chooses by its built-in rates and, without --untuned, by the tuning file that the first half has
written. Algorithms that need --allow-divergent don't count. Last come the misses:
cases in which the choice takes more than 1.1 times as long.

With --hosts the ranks are in network namespaces, one a host, with a link of 1 Gbit/s each (tc tbf; needs
root and iproute2), up to 16 MiB.

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

import predict

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLCTL = os.path.abspath(os.environ.get("COLLCTL", f"{ROOT}/build/collctl"))
LIMIT = 900  # seconds for one command
SIZES = ["-b", "4K", "-e", "64M", "-f", "4"]
GOOD = 1.1

COLLECTIVES = ["allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "gather", "scatter",
               "alltoall", "scan", "exscan"]


class OneHost:
    """@size ranks of this machine."""

    sizes, iterations = SIZES, 30

    def __init__(self, size):
        self.size, self.name = size, f"{size}"

    def bench(self, collective, *options):
        """The rows of rank 0."""
        words = [COLLCTL, "run", "--json", "-n", str(self.size), "--", "bench", collective, *self.sizes,
                 *options]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        if done.returncode:
            sys.exit(f"auto: {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        return next(r for r in json.loads(done.stdout)["ranks"] if r["rank"] == 0)["rows"]


class Hosts:
    """@each ranks on each host of @net."""

    sizes, iterations = ["-b", "4K", "-e", "16M", "-f", "4"], 5

    def __init__(self, net, hosts, each, folder):
        self.net, self.each, self.folder, self.size = net, each, folder, hosts * each
        self.name = f"{hosts}x{each}"
        with open(f"{folder}/{self.name}", "w", encoding="utf8") as f:
            f.writelines(f"{net.address(r // each)}\n" for r in range(self.size))

    def bench(self, collective, *options):
        words = [COLLCTL, "bench", collective, *self.sizes, *options, "-H", f"{self.folder}/{self.name}",
                 "--json", "--secret-file", f"{self.folder}/key"]
        ranks = [self.net.start(r // self.each, *words, "-r", str(r)) for r in range(self.size)]
        said = [p.communicate(timeout=LIMIT) for p in ranks]
        for p, (_, err) in zip(ranks, said):
            if p.returncode:
                sys.exit(f"auto: {' '.join(words)}: exit code {p.returncode}\n{err}")
        return json.loads(said[0][0])["rows"]


def typical(rounds):
    """{(bytes, algorithm): seconds}, medians of several rounds' rows."""
    times = {}
    for rows in rounds:
        for row in rows:
            times.setdefault((row["size"], row["algorithm"]), []).append(row["seconds"]["p50"])
    return {key: statistics.median(all_times) for key, all_times in times.items()}


def choices(place, collective, options):
    rows = place.bench(collective, "-a", "auto", "-w", "0", "--iters", "1", *options)
    return {row["size"]: row["algorithm"] for row in rows}


def judge(place, collective, options, rounds, tuned, folder, ratios, misses):
    tuning = f"{folder}/{collective}.{place.name}.json"
    sweep = [*options, "-a", "all", "--iters", str(place.iterations)]
    written = ["--tuning-out", tuning] if tuned else []
    first, second = (typical(place.bench(collective, *sweep, *more) for _ in range(rounds))
                     for more in (written, []))
    chosen = {"built-in": choices(place, collective, options)}
    if tuned:
        chosen["tuned"] = choices(place, collective, [*options, "--tuning", tuning])
    for nbytes in sorted({b for b, _ in first}):
        here = {a: t for (b, a), t in second.items() if b == nbytes}
        best = min(here, key=lambda a: first[nbytes, a])
        line = f"{collective:15}{place.name:>5} {nbytes:>10}  {best:18} {here[best] * 1e6:9.0f} us"
        for way, taken in chosen.items():
            ratio = here[taken[nbytes]] / here[best]
            ratios[way].append(ratio)
            if ratio > GOOD:
                misses.append(f"{way:10}{collective:15}{place.name:>5} {nbytes:>10}  {taken[nbytes]} takes {ratio:.2f} "
                              f"times as long as {best}")
            line += f"  {taken[nbytes]:18} {ratio:5.2f}"
        print(line, flush=True)


def numbers(words):
    return [int(w) for w in words.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", type=numbers, default=[2, 4])
    p.add_argument("--hosts", type=lambda words: [[int(n) for n in w.split("x")] for w in words.split(",")],
                   default=[])
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
        net = predict.Net(max((n for n, _ in a.hosts), default=0))
        places = [OneHost(size) for size in a.ranks]
        try:
            if a.hosts:
                net.open()
                net.shape(1000)
                subprocess.run([COLLCTL, "keygen", f"{folder}/key"], check=True, capture_output=True)
                places = [Hosts(net, hosts, each, folder) for hosts, each in a.hosts]
            for collective in a.collective:
                for place in places:
                    judge(place, collective, options, a.rounds, not a.untuned, folder, ratios, misses)
        finally:
            net.close()
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
