"""One small job after another, each in a folder of its own, with a fault in one rank or one link."""

import json
import os
import random
import socket
import subprocess
import tempfile
import threading

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLCTL = os.path.abspath(os.environ.get("COLLCTL", os.path.join(ROOT, "build", "collctl")))
LOOPBACK = "127.0.0.1"
SECRET = "0123456789abcdef" * 4
SEED = 20240607  # of the samples of trials
SIZE = 3
LIMIT = 200  # seconds: a rank that still runs then hangs

OLD = b"the old output\n"


class Wrong(Exception):
    pass


def demand(truth, *what):
    if not truth:
        raise Wrong(" ".join(str(w) for w in what))


# ---- how ranks meet ----


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


class Inherited:
    """As `collctl run` starts its ranks: rank 0 inherits the listener. The port stays theirs while this object is there, or
    ranks that find rank 0 dead could find another job's there."""

    def __init__(self):
        self.reserved, self.port = reserve_port()
        self.listener = socket.create_server((LOOPBACK, self.port), backlog=64)

    def descriptors(self, r):
        return [] if r else [self.listener.fileno()]

    def environment(self, r, size, via=int):
        """via: gets rank 0's port, and returns the port to reach it by."""
        env = {"COLLCTL_RANK": str(r), "COLLCTL_SIZE": str(size)}
        if r == 0:
            return {**env, "COLLCTL_LISTEN_FD": str(self.listener.fileno())}
        return {**env, "COLLCTL_COORDINATOR": f"{LOOPBACK}:{via(self.port)}"}


def at_store(r, size, url, name):
    return {"COLLCTL_RANK": str(r), "COLLCTL_SIZE": str(size), "COLLCTL_RENDEZVOUS": url, "COLLCTL_JOB": name}


# ---- running them ----


def exit_code(process):
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


class Processes:
    """A command, or the ranks of a job, in a folder of their own. `codes` and `said` are of those that were waited for."""

    latest = threading.local()  # .processes: what this thread began last

    def __init__(self, size):
        self.size = size
        self.dir = tempfile.TemporaryDirectory(prefix="job.")
        self.ranks, self.codes, self.said = [], {}, {}

    def command(self, r):
        raise NotImplementedError

    def environment(self, r):
        """Without variables of the one who runs the tests."""
        return {k: v for k, v in os.environ.items() if not k.startswith("COLLCTL")}

    def descriptors(self, r):
        return self.meeting.descriptors(r)

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def start(self):
        Processes.latest.processes = self
        self.meeting = Inherited()
        with self.meeting.listener:
            for r in range(self.size):
                with open(self.path(f"err.{r}"), "wb") as err, open(self.path(f"printed.{r}"), "wb") as out:
                    process = subprocess.Popen(
                        self.command(r), cwd=self.dir.name, env=self.environment(r), stdin=subprocess.DEVNULL,
                        stdout=out, stderr=err, pass_fds=self.descriptors(r),
                    )  # fmt: skip
                self.ranks.append(process)
        return self

    def wait(self, ranks=None):
        for r, p in enumerate(self.ranks):
            if ranks is not None and r not in ranks:
                continue
            try:
                p.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Wrong(f"rank {r} hangs")
            self.codes[r] = exit_code(p)
            with open(self.path(f"err.{r}"), errors="replace") as f:
                self.said[r] = f.read()
        return self

    def kill(self):
        for p in self.ranks:
            p.kill()
            p.wait()

    def run(self):
        return self.start().wait()

    def story(self):
        return "".join(f"\n    rank {r}: exit {c}: {self.said[r].strip()}" for r, c in self.codes.items())


class Job(Processes):
    """`size` ranks of an allreduce. wrap: {rank: [command words]} to run a rank under a tool; args:
    {rank: [options]}; env: {rank: {name: value}}; via: {rank: function that gets rank 0's port and
    returns the port to reach it by}; store: (URL, job name), where the ranks meet instead."""

    def __init__(self, size=3, count=20, insecure=False, options=(), wrap=None, args=None, env=None, via=None, store=None):
        super().__init__(size)
        self.count = count
        self.insecure, self.options = insecure, list(options)
        self.wrap, self.args, self.env, self.via = wrap or {}, args or {}, env or {}, via or {}
        self.store = store
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

    def environment(self, r):
        env = super().environment(r)
        env |= at_store(r, self.size, *self.store) if self.store else self.meeting.environment(r, self.size, self.via.get(r, int))
        env |= self.env.get(r, {})
        if not self.insecure:
            env["COLLCTL_SECRET"] = SECRET
        if r in self.wrap:  # sanitizers can't look for leaks where ptrace is in use
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return env

    def command(self, r):
        command = [*self.wrap.get(r, []), COLLCTL, "allreduce", self.input(r), "-o", self.target(r)]
        command += [*self.options, *self.args.get(r, [])]
        return command + (["--insecure"] if self.insecure else [])

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

    def result(self, r):
        """With --json."""
        with open(self.path(f"printed.{r}")) as f:
            return json.load(f)

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

    def culprit(self, r=0):
        """Whom rank r names: where a link has failed, either of its ends, or whoever waits for it."""
        return int(self.said[r].removeprefix("collctl: rank ").split(":")[0])

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
    """Run trial(case) for each, `at_once` on each processor; print what went wrong, with what the ranks of its last job
    did. How many did; one more where no trial had the outcome `must`."""
    from concurrent.futures import ThreadPoolExecutor

    def one(case):
        Processes.latest.processes = None
        try:
            return trial(case)
        except Exception as e:
            last = Processes.latest.processes
            e.args = (f"{e}{last.story() if last else ''}",)
            if isinstance(e, Wrong):
                return e
            raise

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
