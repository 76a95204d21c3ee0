#!/usr/bin/env python3
"""Predicted against measured times, over links that are as slow as the model says.

  tests/bench/predict.py [--ranks 4,7] [--mbit 100,200] [--plain] [--warm] [--quick]
                         [--congestion NAME]

Every rank lives in a network namespace of its own; a veth pair joins it to a bridge, and a token
bucket (tc tbf) at both ends of the pair makes it one port out and one port in of so many Mbit/s.
What the model needs is measured first, with two ranks: the bandwidth with which one sends to the
other over TCP, and the time of the smallest exchange. The other rates are the built-in ones. The
predictions are `plan`'s with these rates.

Each collective runs as a real job (a process per rank, a hostfile, TLS unless --plain), three times,
and the measured time is the median of the slowest rank's seconds.run. In a job the ranks begin when
their connections stand, some milliseconds apart, and the connections have yet to find their pace.
With --warm, what makes every rank wait for every other (allreduce, reduce-scatter, allgather,
alltoall) is measured by `collctl bench` instead, over connections that have been used: p50 of
iterations that follow one another, so that the ranks drift apart. (A bench of the others would tell
how often they can be done in a second, for there no rank waits for the last to be done.)

All ranks share this machine's processors, and so do the buckets and bridges. Frames are large, for a
bucket wakes a processor for each; where that takes all there is, no link is as fast as it was said
to be with all ranks sending at once. A line says how busy the processors were.

The congestion control is the system's, or with --congestion that of the routes between the ranks.

Needs root (network namespaces) and iproute2; without them it says so and ends with 77.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import common
from common import COLLCTL, forget_settings

LIMIT = 300  # seconds for one command
BURST = 32 << 10  # bytes that a bucket lets through at once
MTU = 9000  # few packets: the buckets' timers run on the processors that the ranks need
QUEUE = 1 << 20  # bytes that wait at a port
NEAR = 0.2  # predictions within so much are good

SENDER = """
import socket, sys, time
s = socket.create_connection((sys.argv[1], 7000))
data = bytes(1 << 20)
for _ in range(int(sys.argv[2])): s.sendall(data)
s.shutdown(socket.SHUT_WR)
s.recv(1)
"""
RECEIVER = """
import socket, sys, time
l = socket.create_server((sys.argv[1], 7000))
print(flush=True)
s = l.accept()[0]
n, began = 0, 0
while data := s.recv(1 << 20):
    n += len(data)
    if not began and n >= 1 << 20: n, began = 0, time.perf_counter()
print((time.perf_counter() - began) / n)
"""

# What runs: the collective, its algorithms.
CASES = {
    "allreduce": ["ring_chunked", "recursive_doubling", "halving_doubling", "bcube", "circulant",
                  "direct", "double_tree"],
    "reduce-scatter": ["ring", "circulant", "direct"],
    "allgather": ["ring", "bruck", "recursive_doubling", "neighbor", "direct"],
    "broadcast": ["one_to_all", "binomial", "ring", "scatter_allgather", "circulant"],
    "reduce": ["linear", "binomial", "ring", "rs_gather", "circulant"],
    "gather": ["linear", "binomial"],
    "scatter": ["linear", "binomial"],
    "alltoall": ["direct", "pairwise", "bruck"],
    "scan": ["linear", "recursive_doubling", "doubling_123"],
}


TOGETHER = {"allreduce", "reduce-scatter", "allgather", "alltoall"}


class Unavailable(Exception):
    pass


def busy_ticks():
    """Processor time spent and to be had, of the whole machine, in ticks."""
    with open("/proc/stat", encoding="utf8") as f:
        ticks = [int(w) for w in f.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def environment(congestion):
    print(f"machine      {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} "
          f"before, Linux {os.uname().release}")
    print(f"congestion   {congestion or common.congestion()}")
    print(f"links        burst {BURST >> 10} KiB, queue {QUEUE >> 10} KiB, MTU {MTU}")


def command(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, **options).stdout


def in_folder(name, work):
    """Print the environment, and call work(folder); the folder is temporary, and has a key of a job. Returns the exit
    code: 77 if this machine cannot do the work."""
    folder = tempfile.mkdtemp(prefix="collctl-bench.", dir=os.environ.get("TMPDIR", "/var/tmp"))
    try:
        environment(None)
        command(COLLCTL, "keygen", f"{folder}/key")
        work(folder)
    except Unavailable as e:
        print(f"{name}: skipped: {e}")
        return 77
    finally:
        shutil.rmtree(folder)
    return 0


def bucket(mbit):
    return ["tbf", "rate", f"{mbit}mbit", "burst", str(BURST), "limit", str(QUEUE)]


class Net:
    """P namespaces on a bridge."""

    def __init__(self, size):
        self.size = size
        self.tag = f"cc{os.getpid() % 100000}"
        self.bridge = f"{self.tag}b"

    def address(self, rank):
        return f"10.77.{rank // 250}.{rank % 250 + 1}"

    def space(self, rank):
        return f"{self.tag}-{rank}"

    def open(self):
        try:
            command("ip", "link", "add", self.bridge, "type", "bridge")
            command("ip", "link", "set", self.bridge, "up")
            for r in range(self.size):
                ns, veth = self.space(r), f"{self.tag}v{r}"
                command("ip", "netns", "add", ns)
                command("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0",
                        "netns", ns)
                command("ip", "link", "set", veth, "mtu", str(MTU), "master", self.bridge, "up")
                command("ip", "-n", ns, "addr", "add", f"{self.address(r)}/16", "dev", "eth0")
                command("ip", "-n", ns, "link", "set", "eth0", "mtu", str(MTU), "up")
                command("ip", "-n", ns, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as e:
            said = (getattr(e, "stderr", None) or str(e)).strip()
            raise Unavailable(f"network namespaces can't be had here: {said}") from e

    def congestion(self, name):
        for r in range(self.size):
            command("ip", "-n", self.space(r), "route", "replace", "10.77.0.0/16", "dev", "eth0",
                    "src", self.address(r), "congctl", name)

    def shape(self, mbit):
        """@mbit: of all links, or a sequence of those of the hosts; of a host: both ways, or (up, down)."""
        for r in range(self.size):
            rate = mbit if isinstance(mbit, int) else mbit[r]
            up, down = (rate, rate) if isinstance(rate, int) else rate
            try:
                command("tc", "qdisc", "replace", "dev", f"{self.tag}v{r}", "root", *bucket(down))
                command("tc", "-n", self.space(r), "qdisc", "replace", "dev", "eth0", "root",
                        *bucket(up))
            except (OSError, subprocess.CalledProcessError) as e:
                raise Unavailable(f"links can't be shaped here: {getattr(e, 'stderr', e)}") from e

    def close(self):
        for words in ([["ip", "netns", "del", self.space(r)] for r in range(self.size)] +
                      [["ip", "link", "del", f"{self.tag}v{r}"] for r in range(self.size)] +
                      [["ip", "link", "del", self.bridge]]):
            subprocess.run(words, check=False, capture_output=True)

    def start(self, rank, *words, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.space(rank), *words], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, **options)


class Bench:
    def __init__(self, net, folder, plain, warm, mbit):
        self.net, self.folder, self.mbit = net, folder, mbit
        self.hosts, self.rates = f"{folder}/hosts", f"{folder}/rates.json"
        self.secret = ["--insecure"] if plain else ["--secret-file", f"{folder}/key"]
        self.plan = ["--insecure"] if plain else []
        self.plain, self.warm = plain, warm
        if not plain and not os.path.exists(f"{folder}/key"):
            command(COLLCTL, "keygen", f"{folder}/key")
        self.made = None

    def ranks(self, size, *words):
        """One job of @size ranks; what each printed, parsed."""
        with open(self.hosts, "w", encoding="utf8") as f:
            f.writelines(f"{self.net.address(r)}\n" for r in range(size))
        started = [self.net.start(r, COLLCTL, *words, "-r", str(r), "-H", self.hosts, "--json",
                                  *self.secret, cwd=self.folder) for r in range(size)]
        said = [p.communicate(timeout=LIMIT) for p in started]
        for p, (_, err) in zip(started, said):
            if p.returncode:
                sys.exit(f"predict: {' '.join(words)}: exit code {p.returncode}\n{err}")
        return [json.loads(out) for out, _ in said]

    # ---- the link ----

    def byte_seconds(self):
        """Seconds a byte of payload, over TCP."""
        receiver = self.net.start(1, sys.executable, "-c", RECEIVER, self.net.address(1))
        receiver.stdout.readline()
        mib = max(8, self.mbit // 20)
        sender = self.net.start(0, sys.executable, "-c", SENDER, self.net.address(1), str(mib))
        seconds = float(receiver.communicate(timeout=LIMIT)[0])
        sender.communicate(timeout=LIMIT)
        return seconds

    def calibrate(self):
        byte = self.byte_seconds()
        small = self.swept(2, "allreduce", "recursive_doubling", 4, 100)
        rates = {"latency": small, "message": 0, "egress": byte, "ingress": byte}
        with open(self.rates, "w", encoding="utf8") as f:
            json.dump({"version": 1, "rates": rates}, f)
        print(f"\n{self.mbit} Mbit/s, {'plain TCP' if self.plain else 'TLS'}: {byte * 1e9:.2f} ns a "
              f"byte of payload ({8e-6 / byte:.0f} Mbit/s), {small * 1e6:.0f} us the smallest "
              "exchange of two ranks")

    # ---- a case ----

    def predicted(self, size, collective, algorithm, nbytes):
        plan = json.loads(command(COLLCTL, "plan", collective, "-n", str(size), "-a", algorithm,
                                  "--bytes", str(nbytes), "--tuning", self.rates, "--rank", "0",
                                  "--json", *self.plan))
        return plan["runs"], plan["predicted"]["formula"], plan["predicted"]["simulated"]

    def swept(self, size, collective, algorithm, nbytes, times):
        """`collctl bench`: the median of iterations that follow one another."""
        out = self.ranks(size, "bench", collective, "-a", algorithm, "-b", str(nbytes), "-e",
                         str(nbytes), "-w", str(times // 5 + 1), "--iters", str(times))
        return out[0]["rows"][0]["seconds"]["p50"]

    def make(self, size, collective, nbytes):
        if self.made == (size, collective, nbytes):
            return
        self.made = (size, collective, nbytes)
        own = nbytes // size if collective in ("allgather", "gather") else nbytes
        for r in range(size):
            np.save(f"{self.folder}/in.{r}.npy", np.full(own // 4, r, np.float32))

    def job(self, size, collective, algorithm, nbytes, times):
        """Real jobs: the median of the slowest rank's time from connected to moved."""
        self.make(size, collective, nbytes)
        runs = []
        for _ in range(times):
            out = self.ranks(size, collective, "-a", algorithm, "--no-sync", "in.{rank}.npy", "-o",
                             "out.{rank}.npy")
            runs.append(max(o["seconds"]["run"] for o in out))
        return statistics.median(runs)

    def measured(self, size, collective, algorithm, nbytes, predicted):
        if not self.warm or collective not in TOGETHER:
            return self.job(size, collective, algorithm, nbytes, 3), "job"
        times = max(4, min(40, int(2 / predicted)))
        return self.swept(size, collective, algorithm, nbytes, times), "bench"


def text(nbytes):
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes >> shift} {unit}"
    return f"{nbytes} B"


class Table:
    HEAD = ("link", "ranks", "collective", "algorithm", "size", "formula", "simulated", "measured",
            "by", "formula/m", "simulated/m")

    def __init__(self):
        self.ratios = {"formula": [], "simulated": []}
        self.print(self.HEAD)

    def print(self, row):
        widths = (9, 5, 14, 18, 8, 11, 11, 11, 5, 9, 11)
        print("  ".join(str(c).rjust(w) if i > 3 else str(c).ljust(w)
                        for i, (c, w) in enumerate(zip(row, widths))), flush=True)

    def add(self, link, size, collective, algorithm, nbytes, formula, simulated, measured, way):
        self.ratios["formula"].append(formula / measured)
        self.ratios["simulated"].append(simulated / measured)
        self.print((link, size, collective, algorithm, text(nbytes),
                    *(f"{x * 1e3:.2f} ms" for x in (formula, simulated, measured)), way,
                    f"{formula / measured:.2f}", f"{simulated / measured:.2f}"))

    def summary(self):
        print()
        for name, ratios in self.ratios.items():
            good = sum(1 - NEAR <= r <= 1 + NEAR for r in ratios)
            ordered = sorted(ratios)
            print(f"{name}: {good} of {len(ratios)} ({100 * good / len(ratios):.0f}%) within "
                  f"+-{NEAR:.0%}; predicted/measured {ordered[0]:.2f} .. "
                  f"{statistics.median(ordered):.2f} .. {ordered[-1]:.2f}")


def numbers(words):  # of an option
    return [int(w) for w in words.split(",")]


def measure(table, bench, size, quick):
    sizes = [1 << 20] if quick else [1 << 20, 8 << 20]
    began = busy_ticks()
    for collective, algorithms in CASES.items():
        for nbytes in sizes:
            for algorithm in algorithms[:2] if quick else algorithms:
                runs, formula, simulated = bench.predicted(size, collective, algorithm, nbytes)
                if runs != algorithm:
                    continue
                took, way = bench.measured(size, collective, algorithm, nbytes, simulated)
                table.add(f"{bench.mbit} Mbit", size, collective, algorithm, nbytes, formula,
                          simulated, took, way)
    spent, all_ticks = (b - a for a, b in zip(began, busy_ticks()))
    print(f"processors busy for {spent / all_ticks:.0%} of the time", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--ranks", type=numbers, default=[4, 7])
    p.add_argument("--mbit", type=numbers, default=[100, 200])
    p.add_argument("--plain", action="store_true", help="--insecure instead of TLS")
    p.add_argument("--warm", action="store_true", help="bench what all ranks wait for")
    p.add_argument("--congestion", help="reno, bbr, cubic: as the system has them")
    p.add_argument("--quick", action="store_true", help="one size, two algorithms of each")
    a = p.parse_args()

    forget_settings()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the namespaces go with it
    net = Net(max(a.ranks))
    folder = tempfile.mkdtemp(prefix="collctl-predict.",
                              dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        net.open()
        if a.congestion:
            net.congestion(a.congestion)
        environment(a.congestion)
        table = None
        for mbit in a.mbit:
            net.shape(mbit)
            bench = Bench(net, folder, a.plain, a.warm, mbit)
            bench.calibrate()
            table = table or Table()
            for size in a.ranks:
                measure(table, bench, size, a.quick)
        table.summary()
    except Unavailable as e:
        print(f"predict: {e}", file=sys.stderr)
        sys.exit(77)
    finally:
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, signal.SIG_IGN)  # one is enough
        net.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
