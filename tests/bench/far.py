#!/usr/bin/env python3
"""Hosts that are far from each other: a copy against iperf3, auto against the fastest algorithm, and the
round trips of a start.

  tests/bench/far.py [--rounds 5] [--only copy,choice,start] [--other COLLCTL]

Hosts are network namespaces, each with a line of 1 Gbit/s to a router (wan.py); nothing is lost but
what the lines' queues drop. Options name nothing but the hosts. Jobs run over TLS.

copy: two hosts 200 ms apart: broadcast of 256 MiB, not synced, while data move, and iperf3 -P 8 of as
many bytes, in turn: the median of the rates' ratios.

choice: four hosts 50 ms apart: `bench` of allreduce of 4 KiB, 1 MiB and 16 MiB, all algorithms twice in one
job: the median of the ratios of the one that auto chooses to the fastest.

start: two hosts 200 ms apart: a barrier from the start of both processes to the end of the last, and
a broadcast until its connections for data are open, in round trips.

--other is another program, which takes turns. The lines, too, run on this machine's processors: beside
other work, `chrt -r 10 tests/bench/far.py` has them first. Needs root, iproute2, /dev/net/tun and iperf3; without
them it says so and ends with 77.
"""

import argparse
import json
import os
import statistics
import sys
import time

import predict
from common import COLLCTL, forget_settings
from wan import Wan

MIB = 1 << 20
MBIT = 1000
COPIED = 256 * MIB
ALGORITHMS = "ring_chunked,recursive_doubling,rabenseifner,direct,weighted,circulant"


class Job:
    """Jobs of all hosts of @net, in @folder."""

    def __init__(self, net, folder):
        self.net, self.folder = net, folder
        with open(f"{folder}/hosts", "w", encoding="utf8") as f:
            f.writelines(f"{net.address(r)}\n" for r in range(net.size))

    def run(self, program, *words):
        """What each rank printed, parsed; and the seconds of all processes."""
        began = time.perf_counter()
        started = [self.net.start(r, program, *words, "-r", str(r), "-H", "hosts", "--json", "--secret-file",
                                  "key", cwd=self.folder) for r in range(self.net.size)]
        said = [p.communicate(timeout=predict.LIMIT) for p in started]
        took = time.perf_counter() - began
        for p, (_, err) in zip(started, said):
            if p.returncode:
                sys.exit(f"far: {' '.join(words)}: exit code {p.returncode}\n{err}")
        return [json.loads(out) for out, _ in said], took

    def make(self, name, nbytes):
        with open(f"{self.folder}/{name}.0", "wb") as f:  # without holes, which are not sent
            for at in range(0, nbytes, MIB):
                f.write(b"x" * min(MIB, nbytes - at))

    def broadcast(self, program, name):
        """The file that rank 0 has, which is its output, too: it writes nothing."""
        return self.run(program, "broadcast", "--raw-file", "--root", "0", f"{name}.0", "-o", f"{name}.{{rank}}", "--no-sync")


def iperf(net):
    """iperf3 -P 8 from host 0 to host 1: bytes per second."""
    server = net.start(1, "iperf3", "-s", "-1", "--forceflush")
    server.stdout.readline()
    out, _ = net.start(0, "iperf3", "-c", net.address(1), "-P", "8", "-n", str(COPIED), "-J").communicate(
        timeout=predict.LIMIT)
    server.communicate(timeout=predict.LIMIT)
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8


def copy(folder, programs, rounds):
    net = Wan(2, 0.2, MBIT)
    rates = {name: [] for name in programs}
    streams, theirs = {}, []
    try:
        net.open()
        job = Job(net, folder)
        job.make("large", COPIED)
        for _ in range(rounds):
            for name, program in programs.items():
                ranks, _ = job.broadcast(program, "large")
                rates[name].append(COPIED / max(r["seconds"]["run"] for r in ranks))
                streams[name] = ranks[0]["streams"]
            theirs.append(iperf(net))
    finally:
        net.close()
    for name, ours in rates.items():
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        print(f"copy    256 MiB to one host, 200 ms{name}: {statistics.median(ours) * 8e-6:.0f} Mbit/s by {streams[name]} "
              f"streams, iperf3 -P 8 {statistics.median(theirs) * 8e-6:.0f} Mbit/s: {ratio:.2f}, target 0.95", flush=True)


def choice(folder, programs, rounds):
    net = Wan(4, 0.05, MBIT)
    try:
        net.open()
        job = Job(net, folder)
        for nbytes in (4096, MIB, 16 * MIB):
            for name, program in programs.items():
                ratios = []
                for _ in range(rounds):
                    ranks, _ = job.run(program, "bench", "allreduce", "-a", f"auto,{ALGORITHMS},{ALGORITHMS}", "-b", str(nbytes), "-e",
                                       str(nbytes), "-w", "2", "--iters", "5")
                    rows = ranks[0]["rows"]
                    # The second time, when no connection is slow as a new one is.
                    named = {row["algorithm"]: row for row in rows[1:]}
                    fastest = min(named.values(), key=lambda row: row["seconds"]["p50"])
                    chosen = named[rows[0]["algorithm"]]
                    ratios.append(chosen["seconds"]["p50"] / fastest["seconds"]["p50"])
                print(f"choice  allreduce {nbytes >> 10:6} KiB, 4 hosts, 50 ms{name}: {chosen['algorithm']} "
                      f"{chosen['seconds']['p50'] * 1e3:.0f} ms, the fastest {fastest['algorithm']} "
                      f"{fastest['seconds']['p50'] * 1e3:.0f} ms: {statistics.median(ratios):.2f}, target 1.15",
                      flush=True)
    finally:
        net.close()


def start(folder, programs, rounds):
    trip = 0.2
    net = Wan(2, trip, MBIT)
    try:
        net.open()
        job = Job(net, folder)
        job.make("small", 100)
        for name, program in programs.items():
            barriers, starts = [], []
            for _ in range(rounds):
                barriers.append(job.run(program, "barrier")[1] / trip)
                ranks, _ = job.broadcast(program, "small")
                starts.append(max(r["seconds"]["join"] + r["seconds"]["connect"] for r in ranks) / trip)
            print(f"start   two hosts, 200 ms{name}: barrier {statistics.median(barriers):.1f} round trips, target 4; "
                  f"broadcast until its data move {statistics.median(starts):.1f}, target 5", flush=True)
    finally:
        net.close()


CASES = {"copy": copy, "choice": choice, "start": start}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default=",".join(CASES))
    p.add_argument("--other", help="another program to compare with")
    a = p.parse_args()
    forget_settings()
    programs = {"": COLLCTL}
    if a.other:
        programs[", the other program"] = os.path.abspath(a.other)

    def work(folder):
        for case in a.only.split(","):
            CASES[case](folder, programs, a.rounds)

    return predict.in_folder("far", work)


if __name__ == "__main__":
    sys.exit(main())
