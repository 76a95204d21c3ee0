"""One small job after another, each in a folder of its own, with a fault in one rank or one link."""

import os
import random
import socket
import subprocess
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLCTL = os.environ.get("COLLCTL", os.path.join(ROOT, "build", "collctl"))
LOOPBACK = "127.0.0.1"
LIMIT = 200  # seconds: a rank that still runs then hangs

OLD = b"the old output\n"


class Wrong(Exception):
    pass


def demand(truth, *what):
    if not truth:
        raise Wrong(" ".join(str(w) for w in what))


def reserve_port():
    """A port that a rank can listen on, and that nobody else gets while what is returned with it is open:
    one below those that the kernel gives to connections, whose name is taken in a namespace of its own."""
    while True:
        port = random.randrange(28000, 32768)
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0collctl-test-port-{port}")
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((LOOPBACK, port))
            return lock, port
        except OSError:
            lock.close()


class Job:
    """`size` ranks of an allreduce. wrap: {rank: [command words]} to run a rank under a tool; args:
    {rank: [options]}; env: {rank: {name: value}}; via: {rank: function that gets rank 0's port and
    returns the port to reach it by}; store: (URL, job name), where the ranks meet instead."""

    def __init__(self, size=3, count=20, insecure=False, options=(), wrap=None, args=None, env=None, via=None, store=None):
        self.size, self.count = size, count
        self.insecure, self.options = insecure, list(options)
        self.wrap, self.args, self.env, self.via = wrap or {}, args or {}, env or {}, via or {}
        self.store = store
        self.dir = tempfile.TemporaryDirectory(prefix="job.")
        self.ranks, self.codes, self.said = [], {}, {}
        self.make()

    def make(self):
        """The inputs, and outputs of old."""
        shards = [np.arange(self.count, dtype=np.float32) % 1000 + r for r in range(self.size)]
        for r, shard in enumerate(shards):
            np.save(self.input(r), shard)
            with open(self.target(r), "wb") as f:
                f.write(OLD)
        np.save(self.path("want.npy"), sum(shards))
        with open(self.path("want.npy"), "rb") as f:
            self.new = f.read()

    def input(self, r):
        return self.path(f"in.{r}.npy")

    def target(self, r):
        return self.path(f"out.{r}.npy")

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def start(self):
        # As `collctl run` starts its ranks: rank 0 inherits the listener. The port stays this job's,
        # or ranks that find rank 0 dead could find another job's there.
        self.reserved, port = reserve_port()
        with socket.create_server((LOOPBACK, port), backlog=64) as listener:
            for r in range(self.size):
                self.ranks.append(self.start_rank(r, listener, port))
        return self

    def start_rank(self, r, listener, port):
        env = {k: v for k, v in os.environ.items() if not k.startswith("COLLCTL")}
        env.update(COLLCTL_RANK=str(r), COLLCTL_SIZE=str(self.size), **self.env.get(r, {}))
        if self.store:
            env["COLLCTL_RENDEZVOUS"], env["COLLCTL_JOB"] = self.store
        elif r == 0:
            env["COLLCTL_LISTEN_FD"] = str(listener.fileno())
        else:
            env["COLLCTL_COORDINATOR"] = f"{LOOPBACK}:{self.via.get(r, int)(port)}"
        if not self.insecure:
            env["COLLCTL_SECRET"] = "0123456789abcdef" * 4
        if r in self.wrap:  # sanitizers can't look for leaks where ptrace is in use
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        command = [*self.wrap.get(r, []), COLLCTL, "allreduce", self.input(r), "-o", self.target(r)]
        command += [*self.options, *self.args.get(r, [])]
        command += ["--insecure"] if self.insecure else []
        with open(self.path(f"err.{r}"), "wb") as err:
            return subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                pass_fds=[listener.fileno()] if r == 0 else [],
            )

    def wait(self, ranks=None):
        for r, p in enumerate(self.ranks):
            if ranks is not None and r not in ranks:
                continue
            try:
                code = p.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Wrong(f"rank {r} hangs")
            self.codes[r] = code if code >= 0 else 128 - code
            with open(self.path(f"err.{r}"), errors="replace") as f:
                self.said[r] = f.read()
        return self

    def kill(self):
        for p in self.ranks:
            p.kill()
            p.wait()

    def run(self):
        return self.start().wait()

    def again(self):
        """The same command without the fault succeeds."""
        left = self.temporary()  # of a rank that was killed
        self.wrap, self.env, self.args, self.ranks, self.codes, self.said = {}, {}, {}, [], {}, {}
        self.run()
        for r, code in self.codes.items():
            demand(code == 0, "the second run: rank", r, "failed:", self.said[r])
            demand(self.output(r) == "new", "the second run: rank", r, "has a wrong result")
        demand(self.temporary() == left, "the second run left", self.temporary())

    def output(self, r):
        with open(self.target(r), "rb") as f:
            got = f.read()
        return "old" if got == OLD else "new" if got == self.new else "broken"

    def temporary(self):
        return [n for n in os.listdir(self.dir.name) if n.startswith(".")]

    def story(self):
        return "".join(
            f"\n    rank {r}: exit {c}, {self.output(r)} output: {self.said[r].strip()}"
            for r, c in self.codes.items()
        )

    def text(self, r, culprit):
        """What a rank said. Where nobody is to blame each prints its own number."""
        return self.said[r] if culprit is not None else self.said[r].removeprefix(f"collctl: rank {r}: ")

    # ---- outcomes ----

    def check_success(self):
        for r, code in self.codes.items():
            demand(code == 0, "rank", r, "failed")
            demand(self.output(r) == "new", "rank", r, "has a wrong result")
        demand(not self.temporary(), "left:", self.temporary())

    def check_abort(self, codes, culprit=None, survivors=None):
        """The survivors fail with one code, one culprit (None: nobody), one text; old outputs,
        nothing left."""
        ranks = list(self.codes if survivors is None else survivors)
        first = ranks[0]
        for r in ranks:
            demand(self.codes[r] in codes, "rank", r, "ended with", self.codes[r], "not", codes)
            demand(self.codes[r] == self.codes[first], "exit codes differ")
            demand(self.text(r, culprit) == self.text(first, culprit), "messages differ")
            demand(self.output(r) == "old", "the output of rank", r, "was touched")
        if culprit is not None:
            demand(self.said[first].startswith(f"collctl: rank {culprit}: "), "another culprit")
        if len(ranks) == self.size:
            demand(not self.temporary(), "left:", self.temporary())


def trials(name, cases, trial, must=None, at_once=2):
    """Run trial(case) for each, `at_once` on each processor; print what went wrong. How many did; one more
    where no trial had the outcome `must`."""
    from concurrent.futures import ThreadPoolExecutor

    def one(case):
        try:
            return trial(case)
        except Wrong as e:
            return e

    bad = 0
    tally = {}
    with ThreadPoolExecutor(at_once * (os.cpu_count() or 1)) as pool:
        for case, result in zip(cases, pool.map(one, cases)):
            if isinstance(result, Wrong):
                bad += 1
                print(f"{name} {case}: {result}")
            else:
                tally[result] = tally.get(result, 0) + 1
    outcomes = ", ".join(f"{v} {k}" for k, v in sorted(tally.items()))
    print(f"{name}: {len(cases)} trials, {bad} wrong, {outcomes}")
    if must and must not in tally:
        print(f"{name}: none {must}")
        bad += 1
    return bad
