#!/usr/bin/env python3
"""Files from one host to three others, the first time and again. Hosts are network namespaces (predict.py), each with a
folder of its own; jobs are `run -H -- broadcast` over TLS, not synced.

  tests/bench/fanout.py [--rounds 3] [--only TEXT] [--folder DIR] [--mib 1024]

All sides of a case alternate in one run, after one round that is not counted; a figure is a ratio of medians. Needs root,
iproute2, sshd, clush and rsync; without them it says so.

  new      a file of 1 GB that nobody has, links without limits, against the fastest of clush --copy, parallel scp and rsync
  again    the same file, which all have: --update against rsync
  pieces   1 % of its pieces changed: bytes sent with --update over the bytes of these pieces
  folder   2,000 files, 300 MB, one changed: --update against parallel rsync
  many     20,000 files of 4 KiB that nobody has, against parallel rsync
  slow     weights in bf16 that nobody has, links of 100 and 1000 Mbit/s: --update that knows the rate against one that does not
  delta    weights in bf16 of which 2.1 % have changed (delta_bench): --delta against the whole, links of 100 and 1000 Mbit/s
"""

import argparse
import filecmp
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

import bench
import predict
import reach
from common import COLLCTL, forget_settings

PIECE = 1 << 20
DELTA_BENCH = os.environ.get("DELTA_BENCH", "build/bench/delta_bench")


class Hosts:
    """Every host sees its own folder/of.R as folder/here."""

    def __init__(self, folder):
        self.folder, self.here, self.net, self.daemons = folder, f"{folder}/here", predict.Net(4), []
        for name in ("of.0", "of.1", "of.2", "of.3", "here"):
            os.mkdir(f"{folder}/{name}")

    def open(self):
        def start_there(net, r, words):
            mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
            return net.start(r, "unshare", "-m", "sh", "-c", mount, "-", self.of(r), self.here, *words)

        self.net.open()
        self.daemons, self.ssh = reach.open_sshd(self.net, self.folder, start_there)
        self.names = [self.net.address(r) for r in range(4)]

    def close(self):
        for d in self.daemons:
            d.kill()
        self.net.close()

    def of(self, r, name=""):
        return f"{self.folder}/of.{r}/{name}".rstrip("/")

    def run(self, command):
        return bench.run(["ip", "netns", "exec", self.net.space(0), *command], self.folder)

    def job(self, *options):
        return [COLLCTL, "run", "-H", ",".join(self.names), "--ssh", " ".join(self.ssh), "--remote-path", COLLCTL, "--",
                "broadcast", "--raw-file", "--no-sync", *options]

    def each(self, command):
        return ["sh", "-c", "for h in " + " ".join(self.names[1:]) + "; do {} & done; wait".format(command)]

    def rsync(self, options, source, to):
        return self.each(f'rsync {options} -e "{" ".join(self.ssh)}" {source} $h:{to}')

    def sent(self, *options):
        """The bytes of the job's vector."""
        out = subprocess.run(["ip", "netns", "exec", self.net.space(0), *self.job("--json", *options)],
                             capture_output=True, text=True, check=True).stdout
        return next(json.loads(x[x.index("{"):])["bytes"] for x in out.splitlines() if '"rank": 0' in x or '"rank":0' in x)


def row(case, ours, theirs, target, unit="s"):
    print(f"{case:62s} {ours:10.3f} {theirs:10.3f} {unit:5s} {ours / theirs:6.3f}   target {target}: "
          f"{'met' if ours / theirs <= target else 'missed'}", flush=True)


def alternate(hosts, sides, rounds, before, after):
    """{side: median seconds}; @before and @after each run of a side."""
    times = {name: [] for name in sides}
    for i in range(rounds + 1):
        for name, command in sides.items():
            before()
            took = hosts.run(command)
            after(name)
            if i:
                times[name].append(took)
    return {name: statistics.median(x) for name, x in times.items()}


def check(hosts, name):
    for r in (1, 2, 3):
        if not filecmp.cmp(hosts.of(0, name), hosts.of(r, name), shallow=False):
            sys.exit(f"fanout: {name}: the copies differ")


def forget(hosts, name):
    for r in (1, 2, 3):
        if os.path.exists(hosts.of(r, name)):
            os.unlink(hosts.of(r, name))


def make_big(hosts):
    if not os.path.exists(hosts.of(0, "big")):
        with open(hosts.of(0, "big"), "wb") as f:
            for _ in range(1000):
                f.write(os.urandom(1000000))


def new(hosts, a):
    make_big(hosts)
    big, here, words = hosts.of(0, "big"), hosts.here, " ".join(hosts.ssh[1:])
    sides = {"collctl": hosts.job("-q", f"{here}/big", "-o", f"{here}/big"),
             "clush": ["clush", "-S", "-q", "-o", words, "-w", ",".join(hosts.names[1:]), "--copy", big, "--dest", here + "/"],
             "scp": hosts.each(f"scp -q {words} {big} $h:{here}/"),
             "rsync": hosts.rsync("-W", big, here + "/")}
    t = alternate(hosts, sides, a.rounds, lambda: forget(hosts, "big"), lambda _: check(hosts, "big"))
    print("  new: " + ", ".join(f"{name} {x:.2f} s" for name, x in t.items()))
    best = min(("clush", "scp", "rsync"), key=t.get)
    row(f"new: 1 GB to 3 hosts / {best}", t["collctl"], t[best], 0.4)


def again(hosts, a):
    make_big(hosts)
    big, here = hosts.of(0, "big"), hosts.here
    ours = hosts.job("-q", "--update", f"{here}/big", "-o", f"{here}/big")
    hosts.run(ours)
    sides = {"collctl": ours, "rsync": hosts.rsync("-t", big, here + "/")}
    t = alternate(hosts, sides, a.rounds, lambda: None, lambda _: check(hosts, "big"))
    row("again: 1 GB that all have, --update / rsync", t["collctl"], t["rsync"], 0.25)


def pieces(hosts, _):
    make_big(hosts)
    here = hosts.here
    hosts.run(hosts.job("-q", "--update", f"{here}/big", "-o", f"{here}/big"))
    changed = random.Random(1).sample(range(953), 10)
    with open(hosts.of(0, "big"), "r+b") as f:
        for i in changed:
            f.seek(i * PIECE + 12345)
            f.write(os.urandom(100))
    sent = hosts.sent("--update", f"{here}/big", "-o", f"{here}/big")
    check(hosts, "big")
    row("pieces: 10 of 954 changed, bytes sent / bytes of these", sent / 1e6, 10 * PIECE / 1e6, 1.1, "MB")


def folder(hosts, a):
    source, here = hosts.of(0, "tree"), hosts.here
    os.mkdir(source)
    for i in range(2000):
        os.makedirs(f"{source}/{i // 100}", exist_ok=True)
        with open(f"{source}/{i // 100}/{i}", "wb") as f:
            f.write(os.urandom(150000))
    ours = hosts.job("-q", "--update", f"{here}/tree/", "-o", f"{here}/tree/")
    hosts.run(ours)

    def touch():
        with open(f"{source}/7/777", "ab") as f:
            f.write(b"x")

    def same(_):
        check(hosts, "tree/7/777")

    t = alternate(hosts, {"collctl": ours, "rsync": hosts.rsync("-a", source, here + "/")}, a.rounds, touch, same)
    row("folder: 2,000 files, one changed, to 3 hosts, --update / rsync", t["collctl"], t["rsync"], 1)


def many(hosts, a):
    source, here = hosts.of(0, "many"), hosts.here
    for i in range(20000):
        os.makedirs(f"{source}/{i // 200}", exist_ok=True)
        with open(f"{source}/{i // 200}/{i}", "wb") as f:
            f.write(os.urandom(4096))
    sides = {"collctl": hosts.job("-q", f"{here}/many/", "-o", f"{here}/many/"),
             "rsync": hosts.rsync("-a", source, here + "/")}

    gone = itertools.count()

    def put_away():  # to remove them would slow down those that create files next (ext4)
        n = next(gone)
        for r in (1, 2, 3):
            if os.path.exists(hosts.of(r, "many")):
                os.rename(hosts.of(r, "many"), hosts.of(r, f"many.{n}"))

    t = alternate(hosts, sides, a.rounds, put_away, lambda _: check(hosts, "many/7/1407"))
    row("many: 20,000 files of 4 KiB to 3 hosts / rsync", t["collctl"], t["rsync"], 0.5)


def draw(hosts, mib):
    subprocess.run([DELTA_BENCH, "draw", "5.8e-7", str(mib), hosts.of(0, "v1"), hosts.of(0, "v2")], check=True)


def slow(hosts, a):
    here, mib = hosts.here, min(a.mib, 128)
    draw(hosts, mib)
    for mbit in (100, 1000):
        hosts.net.shape(mbit)
        plain = ["-q", "--update", f"{here}/v2", "-o", f"{here}/v2"]
        sides = {"knows": hosts.job(*plain, "--link-rate", f"{mbit}Mbit"), "not": hosts.job(*plain)}
        t = alternate(hosts, sides, a.rounds, lambda: forget(hosts, "v2"), lambda _: check(hosts, "v2"))
        row(f"slow: {mib} MiB, {mbit} Mbit/s, --update with --link-rate / without", t["knows"], t["not"], 1)


def delta(hosts, a):
    here = hosts.here
    draw(hosts, a.mib)

    def old():
        for r in (1, 2, 3):
            shutil.copy(hosts.of(0, "v1"), hosts.of(r, "v2"))

    for mbit, target in ((100, 0.06), (1000, 0.4)):
        if mbit == 100 and a.mib > 256:  # a whole one takes minutes
            print("  delta: --mib 256 for 100 Mbit/s")
            continue
        hosts.net.shape(mbit)
        sides = {"delta": hosts.job("-q", "--delta", f"{here}/v1", f"{here}/v2", "-o", f"{here}/v2"),
                 "whole": hosts.job("-q", f"{here}/v2", "-o", f"{here}/v2")}
        t = alternate(hosts, sides, 1 if mbit == 100 else a.rounds, old, lambda _: check(hosts, "v2"))
        row(f"delta: {a.mib} MiB, {mbit} Mbit/s, --delta / the whole", t["delta"], t["whole"], target)
    old()
    sent = hosts.sent("--delta", f"{here}/v1", f"{here}/v2", "-o", f"{here}/v2")
    row("delta: bytes sent / the file, per cent", 100 * sent / os.path.getsize(hosts.of(0, "v2")), 1, 1.4, "%")


CASES = {"new": new, "again": again, "pieces": pieces, "folder": folder, "many": many, "slow": slow, "delta": delta}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", choices=CASES)
    p.add_argument("--folder")
    p.add_argument("--mib", type=int, default=1024)
    a = p.parse_args()
    forget_settings()
    for name in ("clush", "rsync", "scp", "sshd"):
        if not shutil.which(name):
            print(f"fanout: skipped: {name} is not there")
            return
    bench.touch_memory()
    place = tempfile.mkdtemp(prefix="collctl-bench.", dir=a.folder or os.environ.get("TMPDIR", "/var/tmp"))
    hosts = Hosts(place)
    try:
        hosts.open()
        for name, case in CASES.items():
            if a.only in (None, name):
                case(hosts, a)
    except predict.Unavailable as e:
        print(f"fanout: skipped: {e}")
    finally:
        hosts.close()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
