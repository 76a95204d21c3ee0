#!/usr/bin/env python3
"""Each allocation of one process of a job fails once. COLLCTL names the binary.

  alloc.py SHIM CASE [--at K] [--rank R] [--all]

SHIM is allocfail.so. Without --all a seeded sample of the allocations; with it each of the last 500, and every 37th
of those before: of OpenSSL's start, which is the same in every case. What must come of each: the process
ends with 11 or with success, never by a signal; the other ranks end as it does and name it, or, where it had
not joined, with 5; every output is the old or the new one, whole; no temporary file is left.
Prints the trials that went wrong; the exit code says whether any did.
"""

import argparse
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from job import COLLCTL, LOOPBACK, OLD, SECRET, Processes, Wrong, at_store, demand

SEED = 20251117
SAMPLE = 8  # trials a rank
WAITING = 300  # trials at once, most of which wait for the end of a --join-timeout
OWN, OTHERS_START = 500, 37  # with --all: every one of the last, and every 37th of those before
RESOURCE, RENDEZVOUS, PEER_LOST = 11, 5, 8
JOIN_TIMEOUT = os.environ.get("ALLOC_JOIN_TIMEOUT", "6s")  # more for slow builds
JOIN = ["--join-timeout", JOIN_TIMEOUT, "--timeout", "20s"]

active = threading.Semaphore(2 * (os.cpu_count() or 1))  # trials that do something, and don't wait


# ---- cases ----


def floats(n):
    return np.arange(n, dtype=np.float32)


def safetensors(path, tensors):
    import struct

    head, at, body = {}, 0, b""
    for name, a in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        body += a.tobytes()
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


class Case:
    """One command, in a folder of its own. names: what it writes, where old outputs lie before."""

    ranks = 1
    outputs = ()
    success = (0,)
    varies = False  # what it prints: times, ports

    def make(self, folder):
        np.save(os.path.join(folder, "in.npy"), floats(20))

    def commands(self):
        raise NotImplementedError

    def talk(self, processes, folder, ready):
        """What the trial does while they run. ready: the other end of the pipe whose number is {pipe} in the commands."""


class Info(Case):
    def commands(self):
        return [["info", "in.npy"]]


class InfoStats(Case):
    def commands(self):
        return [["info", "--stats", "--json", "in.npy"]]


class InfoSet(Case):
    def make(self, folder):
        make_set(folder, "set", 0)

    def commands(self):
        return [["info", "set"]]


class InfoZip(Case):
    def make(self, folder):
        np.savez(os.path.join(folder, "in.npz"), a=floats(20), b=floats(7))

    def commands(self):
        return [["info", "in.npz"]]


class Plan(Case):
    def commands(self):
        return [["plan", "allreduce", "-n", "5", "--count", "100", "--verify"]]


class Algorithms(Case):
    def commands(self):
        return [["algorithms", "--json"]]


class Keygen(Case):
    outputs = ("key",)

    def commands(self):
        return [["keygen", "--force", "key"]]


class Run(Case):
    """The process that starts the ranks, not the ranks."""

    outputs = ("out.0.npy", "out.1.npy")

    def commands(self):
        return [["run", "-n", "2", "--", "allreduce", "in.npy", "-o", "out.{rank}.npy"]]


class RunProgram(Case):
    def commands(self):
        return [["run", "-n", "2", "--label", "--", "/bin/echo", "hello"]]


class Serve(Case):
    success = (128 + signal.SIGTERM,)

    def commands(self):
        return [["serve", "--listen", "127.0.0.1:0", "--port-file", "port", "--ready-fd", "{pipe}"]]

    def talk(self, processes, folder, ready):
        if not os.read(ready, 16):
            return  # it has ended
        with open(os.path.join(folder, "port")) as f:
            base = f"http://{LOOPBACK}:{int(f.read())}/v1/kv/"
        for method, what, body in (("PUT", "a", b"x" * 100), ("GET", "a", None),
                                   ("GET", "a?index=1&wait=10ms", None), ("DELETE", "a", None)):
            try:
                urllib.request.urlopen(urllib.request.Request(base + what, body, method=method), timeout=60).read()
            except (urllib.error.URLError, OSError):
                pass
        processes[0].terminate()


class Job(Case):
    """Ranks that find each other as `run` arranges it."""

    ranks = 2
    names = "in.{r}.npy", "out.{r}.npy"
    command = "allreduce"
    options = ()
    secret = True
    varies = True

    @property
    def outputs(self):
        return tuple(self.names[1].format(r=r) for r in range(self.ranks)) if self.names[1] else ()

    def make(self, folder):
        for r in range(self.ranks):
            np.save(os.path.join(folder, self.names[0].format(r=r)), floats(20) + r)

    def commands(self):
        out = []
        for r in range(self.ranks):
            words = [self.command, self.names[0].format(r=r)]
            words += ["-o", self.names[1].format(r=r)] if self.names[1] else []
            out.append(words + [*self.options, *JOIN] + ([] if self.secret else ["--insecure"]))
        return out


class Tls(Job):
    pass


class Insecure(Job):
    secret = False


class Windows(Job):
    secret = False
    options = ("--memory", "1M", "--streams", "2", "-a", "ring_chunked")

    def make(self, folder):
        for r in range(self.ranks):
            np.save(os.path.join(folder, f"in.{r}.npy"), floats(200000) + r)


class Zip(Job):
    secret = False
    names = "in.{r}.npz", "out.{r}.npz"

    def make(self, folder):
        for r in range(self.ranks):
            np.savez(os.path.join(folder, f"in.{r}.npz"), a=floats(20) + r, b=floats(7))


def make_set(folder, name, r):
    os.mkdir(os.path.join(folder, name))
    at = {}
    for i, tensors in enumerate(({"a": floats(20) + r}, {"b": floats(7), "c": floats(1)})):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        safetensors(os.path.join(folder, name, file), tensors)
        at |= {t: file for t in tensors}
    with open(os.path.join(folder, name, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 112}, "weight_map": at}, f)


class Set(Job):
    secret = False
    names = "set.{r}", "out.{r}/"

    @property
    def outputs(self):
        files = [f"model-{i:05}-of-00002.safetensors" for i in (1, 2)] + ["model.safetensors.index.json"]
        return tuple(f"out.{r}/{f}" for r in range(self.ranks) for f in files)

    def make(self, folder):
        for r in range(self.ranks):
            make_set(folder, f"set.{r}", r)
            os.mkdir(os.path.join(folder, f"out.{r}"))


class Gather(Job):
    """Rank 0 hears the names of the others' files."""

    secret = False
    command = "gather"
    options = ("--raw-file", "--force")
    outputs = ("out/0/in.0.npy", "out/1/in.1.npy")

    def make(self, folder):
        super().make(folder)
        for r in range(self.ranks):
            os.makedirs(os.path.join(folder, "out", str(r)))

    def commands(self):
        return [[*words[:2], "-o", "out/{rank}/", *words[4:]] for words in super().commands()]


class Verify(Job):
    names = "in.npy", None
    command = "verify"


class Barrier(Job):
    names = "in.npy", None

    def commands(self):
        return [["barrier", "-a", "all_to_all", *JOIN]] * self.ranks


class Bench(Job):
    names = "in.npy", None
    secret = False

    def commands(self):
        return [["bench", "allreduce", "-b", "1K", "-e", "1K", "--iters", "2", "--insecure", *JOIN]] * self.ranks


class Store(Job):
    store = True


def make_ca(folder, *ranks):
    for words in ["init"], *(["issue", "--rank", str(r)] for r in ranks):
        subprocess.run([COLLCTL, "-q", "ca", words[0], "pki", *words[1:]], cwd=folder, check=True)


class Issue(Case):
    varies = True

    def make(self, folder):
        make_ca(folder, 0)

    def commands(self):
        return [["ca", "issue", "pki", "--rank", "0", "--force"]]


class Revoke(Case):
    varies = True

    def make(self, folder):
        make_ca(folder, 0)

    def commands(self):
        return [["ca", "revoke", "pki", "pki/rank-0.pem"]]


class Certificates(Job):
    secret = False
    names = "in.npy", None

    def make(self, folder):
        make_ca(folder, *range(self.ranks))

    def commands(self):
        return [["barrier", "--tls-cert", "pki/rank-{rank}.pem", "--tls-key", "pki/rank-{rank}.key", "--tls-ca",
                 "pki/ca.pem", *JOIN]] * self.ranks


CASES = {c.__name__.lower(): c for c in (
    Info, InfoStats, InfoSet, InfoZip, Plan, Algorithms, Keygen, Run, RunProgram, Serve,
    Tls, Insecure, Windows, Zip, Set, Gather, Verify, Barrier, Bench, Store, Issue, Revoke,
    Certificates)}


# ---- a trial ----


def serve():
    """A store for all trials: (process, URL)."""
    r, w = os.pipe()
    p = subprocess.Popen([COLLCTL, "serve", "--listen", "127.0.0.1:0", "--ready-fd", str(w), "-q"], pass_fds=[w])
    os.close(w)
    return p, f"http://{LOOPBACK}:{int(os.read(r, 16))}"


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Trial(Processes):
    """The case run once, with the k-th allocation of one process failing; k 0: none."""

    numbers = iter(range(1 << 30))

    def __init__(self, case, shim, victim, k, url):
        super().__init__(case.ranks)
        self.case, self.shim, self.victim, self.k, self.url = case, shim, victim, k, url
        self.number = next(Trial.numbers)
        case.make(self.dir.name)
        for name in case.outputs:
            with open(self.path(name), "wb") as f:
                f.write(OLD)
        self.commands = case.commands()
        ready, self.pipe = os.pipe()
        try:
            with active:
                self.start()
                os.close(self.pipe)
                case.talk(self.ranks, self.dir.name, ready)
                self.wait([victim])
            self.wait()
        finally:
            os.close(ready)
        self.read()

    def environment(self, r):
        env = super().environment(r)
        # One arena, so that the place of an allocation in the count is the same each time.
        env |= {"MALLOC_ARENA_MAX": "1", "LC_ALL": "C"}
        if r == self.victim:
            # In a build with ASAN the shim hands its allocations on to ASAN, which finds the leaks.
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:fast_unwind_on_malloc=0"
            env["LSAN_OPTIONS"] = f"suppressions={LEAKS}:print_suppressions=0"
            env |= {"LD_PRELOAD": self.shim, "ALLOCFAIL_AT": str(self.k), "ALLOCFAIL_REPORT": self.path("report")}
        if not isinstance(self.case, Job):
            return env
        if self.case.secret:
            env["COLLCTL_SECRET"] = SECRET
        if getattr(self.case, "store", False):
            return env | at_store(r, self.size, self.url, f"job{self.number}")
        return env | self.meeting.environment(r, self.size)

    def command(self, r):
        return [COLLCTL] + [w.replace("{pipe}", str(self.pipe)) for w in self.commands[r]]

    def descriptors(self, r):
        return [self.pipe, *super().descriptors(r)]

    def read(self):
        def text(name):
            return (read(self.path(name)) or b"").decode()

        self.printed = read(self.path(f"printed.{self.victim}"))
        self.files = {n: read(self.path(n)) for n in self.case.outputs}
        self.count, self.failed = map(int, (text("report") or "-1 -1").split())
        self.stack, self.where = text("report.stack"), text("report.where")
        self.left = [n for _, _, names in os.walk(self.dir.name) for n in names if n.startswith(".") or n.endswith(".tmp")]

    def story(self):
        if not hasattr(self, "left"):
            return super().story()
        lines = [f"allocation {self.k} of process {self.victim}, {self.failed} failed"]
        lines += ["  " + line for line in self.stack.splitlines()]
        lines += ["  allocated by " + line for line in self.where.splitlines()[1:14]]
        return super().story() + "\n    " + "\n    ".join(lines)

    def after_the_verdict(self):
        """A control link that broke then is said to have: 8 where it is noticed, and files old or new.
        Where there are no files rank 0 is done once it has given the verdict, and notices nothing."""
        told = [r for r, said in self.said.items() if "lost after the verdict" in said]
        given = not self.case.outputs and self.victim == 0 and self.codes[0] in self.case.success
        return (told or given and PEER_LOST in self.codes.values()) and not self.left and all(
            c in (RESOURCE, *self.case.success) or c == PEER_LOST and (r in told or "before it gave" in self.said[r])
            for r, c in self.codes.items())

    def check(self, whole):
        """What came of it, in a word; whole: the trial without a fault."""
        new = whole.files
        mine = self.codes[self.victim]
        others = [(r, c) for r, c in self.codes.items() if r != self.victim]
        for name, got in self.files.items():
            demand(got == OLD or same(name, got, new[name]), name, "is broken")
        if mine > 128 and mine not in self.case.success:
            for name, pattern in LIBRARIES_OWN:
                if re.search(pattern, self.stack):
                    return f"crashed in {name}"
        if "(pthread_getattr_np+" in self.where and re.search(r"/lib[at]san\.", self.where):
            return "in the start of a thread by a sanitizer"
        if self.after_the_verdict():
            return "lost after the verdict"
        demand(mine == RESOURCE or mine in self.case.success, "it ended with", mine)
        demand(not self.left, "left:", self.left)
        if mine != RESOURCE:
            demand(all(c in self.case.success for _, c in others), "it succeeded, another did not")
            demand(all(got != OLD for got in self.files.values()), "an output is the old one")
            lines = [t.printed and sorted(t.printed.splitlines()) for t in (self, whole)]  # of ranks in any order
            demand(self.case.varies or lines[0] == lines[1], "it prints something else")
            return "succeeded" if self.failed == 1 else "not reached"
        demand(self.said[self.victim].strip(), "it says nothing")
        if "--json" in self.commands[self.victim]:
            demand(json.loads(self.printed)["error"]["code"] == RESOURCE, "it prints no JSON of it")
        silent = False
        for r, code in others:
            if code == RESOURCE:
                demand(f"rank {self.victim}: " in self.said[r], "rank", r, "names another")
            elif code == PEER_LOST:  # it had no link any more, or not yet, to say it by
                demand(f"rank {self.victim}: lost" in self.said[r], "rank", r, "names another")
                silent = True
            elif code in self.case.success:
                demand(all(got != OLD for got in self.files.values()), "rank", r, "succeeded alone")
            else:
                demand(code == RENDEZVOUS, "rank", r, "ended with", code)
        return "out of memory, and could not say so" if silent else "out of memory"


# Leaks of others, by their stacks.
LEAKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "leaks.supp")

# Crashes of a library's own, by their stacks: none may be added without a look at its source.
LIBRARIES_OWN = ()


def same(name, got, want):
    if name == "key":
        return got is not None and len(got) == len(want)
    if not name.endswith(".npz"):
        return got == want
    a, b = (np.load(io.BytesIO(x)) for x in (got, want))  # a zip has its time in it
    return a.files == b.files and all(np.array_equal(a[k], b[k]) for k in a.files)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shim")
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--at", type=int)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    shim = os.path.realpath(args.shim)
    case = CASES[args.case]()
    store, url = serve() if getattr(case, "store", False) else (None, None)
    try:
        sys.exit(1 if loop(case, args, shim, url) else 0)
    finally:
        if store:
            store.terminate()
            store.wait()


def loop(case, args, shim, url):
    victims = range(case.ranks) if args.rank is None else [args.rank]
    whole, trials = {}, []
    for victim in victims:
        whole[victim] = Trial(case, shim, victim, 0, url)
        first = whole[victim]
        demand(all(c in case.success for c in first.codes.values()), "without a fault:", first.story())
        # The start is OpenSSL's, the same everywhere; most of our own are at the end.
        ks = range(1, first.count + 1, args.step)
        if args.at:
            ks = [args.at]
        elif args.all:
            ks = sorted({*ks[::OTHERS_START], *ks[-OWN:]})
        else:
            r = random.Random(SEED + victim)
            last = ks[-400:]
            ks = sorted(r.sample(ks, min(SAMPLE // 4, len(ks))) + r.sample(last, min(SAMPLE - SAMPLE // 4, len(last))))
        trials += [(victim, k) for k in ks]
    tally, bad, told = {}, 0, {}

    def one(trial):
        try:
            return Trial(case, shim, *trial, url).check(whole[trial[0]]), None
        except Wrong as e:
            story = Processes.latest.processes.story()
            return "wrong", (re.sub(r"[0-9]+", "", f"{e} {story}"), f"{args.case} {trial}: {e}: {story}")

    with ThreadPoolExecutor(WAITING) as pool:
        for word, text in pool.map(one, trials):
            tally[word] = tally.get(word, 0) + 1
            if text:
                bad += 1
                told.setdefault(text[0], []).append(text[1])
    for texts in told.values():
        print(f"{len(texts)} like this: {texts[0]}")
    counts = ", ".join(str(w.count) for w in whole.values())
    print(f"{args.case}: {len(trials)} trials of {counts} allocations, "
          + ", ".join(f"{n} {w}" for w, n in sorted(tally.items())))
    return bad


if __name__ == "__main__":
    main()
