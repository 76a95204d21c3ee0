#!/usr/bin/env python3
"""How good is auto's choice? Every algorithm of every collective is measured on this machine, and
the time of the one that auto takes is compared with the time of the fastest.

  tests/bench/auto.py [--ranks 2,4 | --hosts 4x1,4x4 [--mbit M,M,...] [--trip SECONDS]]
                      [--lanes WAY] [--plain] [--rounds N] [--good RATIO] [--untuned]
                      [--save FILE | --load FILE] [COLLECTIVE...]

Measured by `collctl bench` (in memory), N times and N times again; a time is the median of the
rounds' medians. The first half decides which algorithm is the fastest, the second half compares it
with auto's choice: so luck does not count. Auto chooses by its built-in rates and, without
--untuned, by the tuning file that the first half has written. Algorithms that need
--allow-divergent don't count. Then come the misses: cases in which the choice takes more than 1.1
times as long (--good). The last line says how well the measurements of the first half choose for the second.
No rule can be expected to do better: the rest is noise.

--save writes the measured times to FILE, and --load takes them from there: to compare rules of
choice by the same measurements.

With --hosts the ranks are in network namespaces, one a host, with a link of 1 Gbit/s each (tc tbf; needs
root and iproute2), up to 16 MiB. With --mbit the links of the hosts have these rates, which the ranks
are given as --link-rate; with --trip the hosts are that far from each other (wan.py). Both measure
fewer sizes.

A barrier comes before each iteration, so a time is how long one collective takes: what a job takes,
and what the built-in rates are for.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import predict
from common import COLLCTL, forget_settings
from wan import Wan

LIMIT = 900  # seconds for one command

COLLECTIVES = ["allreduce", "reduce-scatter", "allgather", "broadcast", "reduce", "gather", "scatter",
               "alltoall", "scan", "exscan"]


def sweep(place, collective, *options, iterations=None):
    """The rows of all sizes of the place, by @iterations or by the number that its grid has."""
    return [row for start, end, usual in place.grid
            for row in place.bench(collective, "-b", start, "-e", end, "-f", "4",
                                   "--iters", str(iterations or usual), *options)]


class OneHost:
    """@size ranks of this machine."""

    # Sizes and iterations: each takes long enough for a median that comes again.
    grid = [("4K", "64K", 1000), ("256K", "1M", 200), ("4M", "4M", 40), ("16M", "64M", 10)]

    def __init__(self, size):
        self.size, self.name = size, f"{size}"

    def bench(self, collective, *options):
        """The rows of rank 0."""
        words = [COLLCTL, "run", "--json", "-n", str(self.size), "--", "bench", collective, *options]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        if done.returncode:
            sys.exit(f"auto: {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        return next(r for r in json.loads(done.stdout)["ranks"] if r["rank"] == 0)["rows"]


class Hosts:
    """@each ranks on each host of @net."""

    grid = [("4K", "64K", 50), ("256K", "4M", 10), ("16M", "16M", 3)]
    odd_grid = [("4K", "64K", 7), ("1M", "1M", 5), ("16M", "16M", 3)]  # links that are slow or long

    def __init__(self, net, hosts, each, folder, mbit, odd):
        self.net, self.each, self.folder, self.size, self.mbit = net, each, folder, hosts * each, mbit
        if odd:
            self.grid = self.odd_grid
        self.name = f"{hosts}x{each}"
        with open(f"{folder}/{self.name}", "w", encoding="utf8") as f:
            f.writelines(f"{net.address(r // each)}\n" for r in range(self.size))

    def rate(self, host):
        return ["--link-rate", f"{self.mbit[host]}Mbit"] if self.mbit else []

    def bench(self, collective, *options):
        words = [COLLCTL, "bench", collective, *options, "-H", f"{self.folder}/{self.name}",
                 "--json", "--secret-file", f"{self.folder}/key"]
        ranks = [self.net.start(r // self.each, *words, "-r", str(r), *self.rate(r // self.each))
                 for r in range(self.size)]
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


def measured(place, collective, options, rounds, tuning):
    """Both halves. The first writes the tuning file, if it is wanted."""
    def half(*more):
        return typical(sweep(place, collective, *options, "-a", "all", "--barrier", *more)
                       for _ in range(rounds))

    return half(*(["--tuning-out", tuning] if tuning else [])), half()


def choices(place, collective, options):
    rows = sweep(place, collective, "-a", "auto", "-w", "0", *options, iterations=1)
    return {row["size"]: row["algorithm"] for row in rows}


class Times:
    """Measured times, which a file can keep."""

    def __init__(self, path):
        self.kept = {}
        if path:
            with open(path, encoding="utf8") as f:
                self.kept = json.load(f)
        self.complete = path is not None

    def of(self, place, collective, measure):
        name = f"{collective} {place.name}"
        if not self.complete:
            self.kept[name] = [[[b, a, t] for (b, a), t in half.items()]
                               for half in measure(place, collective)]
        return tuple({(b, a): t for b, a, t in half} for half in self.kept[name])

    def save(self, path):
        if path:
            with open(path, "w", encoding="utf8") as f:
                json.dump(self.kept, f)


class Score:
    """Ratios of a rule's choices to the fastest, and its misses."""

    def __init__(self, good):
        self.ratios, self.misses, self.good = [], [], good

    def add(self, name, ratio, case):
        self.ratios.append(ratio)
        if ratio > self.good:
            self.misses.append(f"{name:10}{case}")

    def line(self, name):
        good = sum(r <= self.good for r in self.ratios)
        return (f"{name}: within {self.good - 1:.0%} of the fastest in {good} of {len(self.ratios)} cases "
                f"({good / len(self.ratios):.0%}); median {statistics.median(self.ratios):.2f}, "
                f"worst {max(self.ratios):.2f}")


def judge(place, collective, halves, chosen, scores):
    for nbytes in sorted({b for b, _ in halves[0]}):
        before, here = ({a: t for (b, a), t in half.items() if b == nbytes} for half in halves)
        best = min(here, key=lambda a: before[a])
        line = f"{collective:15}{place.name:>5} {nbytes:>10}  {best:18} {here[best] * 1e6:9.0f} us"
        for way, taken in chosen.items():
            ratio = here[taken[nbytes]] / here[best]
            scores[way].add(way, ratio, f"{collective:15}{place.name:>5} {nbytes:>10}  {taken[nbytes]} takes "
                                        f"{ratio:.2f} times as long as {best}")
            line += f"  {taken[nbytes]:18} {ratio:5.2f}"
        scores["noise"].add("noise", here[best] / min(here.values()), "")
        print(line, flush=True)


def numbers(words):
    return [int(w) for w in words.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", type=numbers, default=[2, 4])
    p.add_argument("--hosts", type=lambda words: [[int(n) for n in w.split("x")] for w in words.split(",")],
                   default=[])
    p.add_argument("--mbit", type=numbers, default=[], help="of each host's link")
    p.add_argument("--trip", type=float, default=0, help="seconds there and back between hosts")
    p.add_argument("--good", type=float, default=1.1, help="a choice that takes more times as long is a miss")
    p.add_argument("--lanes", choices=["auto", "tcp", "memory"], default="auto")
    p.add_argument("--plain", action="store_true", help="--insecure instead of TLS")
    p.add_argument("--rounds", type=int, default=3, help="sweeps to tune by, and to judge by")
    p.add_argument("--untuned", action="store_true", help="only the built-in rates")
    p.add_argument("--save", metavar="FILE", help="write the measured times")
    p.add_argument("--load", metavar="FILE", help="take the times from there; implies --untuned")
    p.add_argument("collective", nargs="*", default=COLLECTIVES)
    a = p.parse_args()
    most = max((n for n, _ in a.hosts), default=0)
    if (a.mbit or a.trip) and not most or a.mbit and (a.trip or len(a.mbit) < most):
        p.error("--hosts with --mbit, a rate for each host, or with --trip")

    forget_settings()
    options = ["--lanes", a.lanes, *(["--insecure"] if a.plain else [])]
    ways = ["built-in"] if a.untuned or a.load else ["built-in", "tuned"]
    times = Times(a.load)
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} before, "
          f"{'plain TCP' if a.plain else 'TLS'}, lanes {a.lanes}")
    print(f"{'collective':15}ranks      bytes  fastest                         " +
          "  ".join(f"auto: {way:12} ratio" for way in ways))
    scores = {way: Score(a.good) for way in [*ways, "noise"]}
    with tempfile.TemporaryDirectory(prefix="collctl-auto.") as folder:
        net = Wan(most, a.trip, 1000) if a.trip else predict.Net(most)
        places = [OneHost(size) for size in a.ranks]
        try:
            if a.hosts:
                net.open()
                if not a.trip:
                    net.shape(a.mbit or 1000)
                subprocess.run([COLLCTL, "keygen", f"{folder}/key"], check=True, capture_output=True)
                places = [Hosts(net, hosts, each, folder, a.mbit, a.mbit or a.trip) for hosts, each in a.hosts]
            for collective in a.collective:
                for place in places:
                    tuning = f"{folder}/{collective}.{place.name}.json" if "tuned" in ways else None
                    halves = times.of(place, collective,
                                      lambda p, c, t=tuning: measured(p, c, options, a.rounds, t))
                    chosen = {"built-in": choices(place, collective, options)}
                    if tuning:
                        chosen["tuned"] = choices(place, collective, [*options, "--tuning", tuning])
                    judge(place, collective, halves, chosen, scores)
                    times.save(a.save)
        finally:
            net.close()
    print()
    for way in ways:
        print("\n".join(scores[way].misses))
    for way in ways:
        print(scores[way].line(way))
    print(scores["noise"].line("the first half's choice"))


if __name__ == "__main__":
    main()
