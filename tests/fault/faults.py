"""The faults that a job of tests/fault/jobs.py may meet, and what each may make of it.

A fault sets itself up in `arm` (before the ranks start), may do things at times (`run.at`), and says in
`judge` what came out wrong. What every job must keep, whatever the fault, is in jobs.py.
"""

import errno
import os
import re
import signal

import proxy as px
from cases import NO_LANES
from job import reserve_port


class Judgement:
    """What came out of a run, and the complaints about it."""

    def __init__(self, run):
        self.run, self.case = run, run.case
        self.ranks = list(range(run.case.size))
        self.codes, self.said = run.codes, run.said
        self.wrong = []

    def demand(self, truth, *what):
        if not truth:
            self.wrong.append(" ".join(str(w) for w in what))
        return truth

    def message(self, r):
        lines = [x for x in self.said[r].splitlines() if x.startswith("collctl: ")]
        return lines[-1].removeprefix("collctl: ") if lines else ""

    def culprit(self, r):
        m = re.match(r"rank (\d+)\b", self.message(r))
        return int(m.group(1)) if m else None

    def new(self, r):
        """Is a rank's output, which has to be told from the old one, the new one?"""
        return any("old" not in s for s in self.run.states[r].values())

    def kept(self, r):
        return all("old" in s for s in self.run.states[r].values())

    def may_be_new(self, r):
        return all(s != "old" for s in self.run.states[r].values())

    def committed(self, survivors):
        """Did somebody get the verdict?"""
        if any(self.codes[r] == 0 for r in survivors) or any(self.new(r) for r in self.ranks):
            return True
        # Where the new files are as the old ones were, by what the ranks say.
        return any("after the verdict" in self.said[r] and self.may_be_new(r) for r in survivors)

    def success(self):
        for r in self.ranks:
            self.demand(self.codes[r] == 0, "rank", r, "failed with", self.codes[r])

    def aborted(self, ranks, codes, culprits=None, same_text=True):
        """All these ranks fail alike: one code, one culprit, one text, the old files."""
        if not ranks:
            return
        first = ranks[0]
        for r in ranks:
            self.demand(self.codes[r] in codes, "rank", r, "ended with", self.codes[r], "instead of", sorted(codes))
            self.demand(self.codes[r] == self.codes[first], "ranks", first, "and", r, "ended with different codes")
            self.demand(self.kept(r), "the old output of rank", r, "was touched")
            if culprits is not None:
                self.demand(self.culprit(r) in culprits, "rank", r, "blames", self.culprit(r), "instead of", sorted(culprits))
            self.demand(self.culprit(r) is not None, "rank", r, "names nobody")
        if same_text:
            raw = {self.message(r) for r in ranks}
            own = {self.message(r).removeprefix(f"rank {r}: ") for r in ranks}
            self.demand(len(raw) == 1 or len(own) == 1, "the ranks tell different things")

    def cause(self, r):
        """What a rank says, without what it alone can know: what it has found at rank 0's address or in the
        store, and in which phase it was when it lost rank 0."""
        text = self.message(r)
        text = re.sub(r"(not found within [^ ]+ s \(--join-timeout\)).*", r"\1", text)
        return re.sub(r"^(rank 0: lost|rank 0: no message for .* \(--timeout\)) (while|during) .*", r"\1", text)

    def one_cause(self, ranks):
        """These ranks fail with one code and one text. If rank 0 is lost or stopped, there may be four: of those that
        have not reached it, of those that it has not told who is there, of those that have voted, and of the others."""
        failed = [r for r in ranks if self.codes[r] != 0]
        absent = [r for r in failed if "rank 0: not found within " in self.message(r)]
        in_doubt = [r for r in failed if "before it gave the verdict" in self.message(r)]
        untold = [r for r in failed if "rank 0: sent no ROSTER message" in self.message(r)]
        groups = [absent, untold, in_doubt, [r for r in failed if r not in absent + untold + in_doubt]]
        for group in groups:
            codes, texts = {self.codes[r] for r in group}, {self.cause(r) for r in group}
            own = {self.cause(r).removeprefix(f"rank {r}: ") for r in group}
            self.demand(len(codes) < 2, "one cause has the codes", *sorted(codes))
            self.demand(len(texts) < 2 or len(own) < 2, "one cause has the texts", *sorted(texts))
        self.demand(all(self.codes[r] == 5 for r in absent), "who has not found rank 0 ends with another code than 5")
        self.demand(all(self.codes[r] == 8 for r in in_doubt), "who is in doubt ends with another code than 8")
        self.demand(sum(1 for g in groups if g) < 2 or 0 not in ranks, "rank 0 is there, but not for all ranks")

    def after_verdict(self, survivors, lost, codes=frozenset({8})):
        """Somebody was lost after the verdict: who learns of it ends with 8 and names it; each has its new
        file, or is in doubt and has the old one."""
        for r in survivors:
            if self.codes[r] != 0:
                self.demand(self.codes[r] in codes, "after the verdict rank", r, "ended with", self.codes[r])
                self.demand(self.culprit(r) in lost, "after the verdict rank", r, "blames", self.culprit(r))
        heard = {self.codes[r] == 0 for r in survivors if 0 not in lost}
        self.demand(len(heard) < 2, "after the verdict some ranks learned of the loss and others did not")


class Fault:
    """No fault: the base of all."""

    name = "none"
    quick = False  # does it leave somebody waiting, so that short timeouts save time?
    meets = ("inherit", "hostfile", "store", "run")  # how its ranks may meet

    def __init__(self, rng, case):
        self.rng, self.case = rng, case
        self.victim = rng.randrange(case.size)
        self.draw()

    def draw(self):
        pass

    def arm(self, run):
        pass

    def killed(self):
        """The ranks that end by SIGKILL, whose temporary files may stay."""
        return set()

    def alone(self):
        """The ranks that see the fault in another way than the rest; None: each sees its own."""
        return {self.victim}

    def judge(self, j):
        j.success()

    def __str__(self):
        return self.name

    def survivors(self, j, *but):
        return [r for r in j.ranks if r not in but]

    def moment(self):
        """When, after the ranks were started; most jobs take 10 to 50 ms."""
        return self.rng.choice((self.rng.uniform(0, 0.02), self.rng.uniform(0, 0.06), self.rng.uniform(0.05, 0.3)))


# Where a fault can strike by its number: a call that most jobs make, and how often about.
CALLS = {
    "any": 750, "sendmsg": 30, "recvfrom": 30, "epoll_wait": 40, "connect": 6, "accept4": 6, "pread64": 12,
    "pwrite64": 8, "fallocate": 3, "fsync": 4, "linkat": 3, "renameat": 3, "close": 60, "epoll_ctl": 20,
}  # fmt: skip


def at_call(rng, names):
    """(k, [NAME]) for sysfault"""
    name = rng.choice(names)
    return rng.randrange(1, CALLS[name] + 1), [] if name == "any" else [name]


class Killed(Fault):
    """One or two ranks end by SIGKILL, at a time or in place of a system call."""

    name, quick, meets = "killed", True, ("inherit", "hostfile", "store")
    count = 1

    def draw(self):
        self.victims = self.rng.sample(range(self.case.size), min(self.count, self.case.size - 1))
        self.plan = {}
        for v in self.victims:
            by_call = self.rng.random() < 0.75
            self.plan[v] = at_call(self.rng, list(CALLS)) if by_call else self.moment()

    def __str__(self):
        return ", ".join(f"rank {v} killed at {p}" for v, p in self.plan.items())

    def killed(self):
        return set(self.victims)

    def alone(self):
        return set(self.victims)

    def arm(self, run):
        for v, p in self.plan.items():
            if isinstance(p, tuple):
                run.under(v, "kill", str(p[0]), *p[1])
            else:
                run.at(p, lambda v=v: run.signal(v, signal.SIGKILL))

    def judge(self, j):
        lost = {v for v in self.victims if j.codes[v] != 0}
        rest = self.survivors(j, *lost)
        for v in lost:
            # Of two, the one that saw the other die ends as a survivor does.
            j.demand(j.codes[v] == 137 or len(self.victims) > 1, "the killed rank", v, "ended with", j.codes[v])
        if not lost:
            return j.success()
        if all(j.codes[r] == 0 for r in rest):
            return None  # they were done already
        if j.committed(rest):
            return j.after_verdict(rest, lost)
        if 0 in lost:  # who had joined lost it, who had not does not find it
            for r in rest:
                j.demand(j.codes[r] in (5, 8), "rank", r, "ended with", j.codes[r])
                j.demand(j.culprit(r) in lost or "rank 0: not found" in j.said[r], "rank", r, "does not blame rank 0")
            return None
        # A rank that never came is missed; rank 0 tells all the same.
        return j.aborted(rest, {5, 8}, lost)


class TwoKilled(Killed):
    name, count = "two killed", 2

    def alone(self):
        # Rank 0 may end while it tells the others of the second: then they have heard of different ones.
        return None if 0 in self.victims else set(self.victims)


class Stopped(Fault):
    """SIGSTOP, and SIGCONT only when the others have ended."""

    name, quick, meets = "stopped", True, ("inherit", "hostfile", "store")

    def draw(self):
        self.when = self.moment()

    def __str__(self):
        return f"rank {self.victim} stopped after {self.when:.3f} s"

    def arm(self, run):
        run.at(self.when, lambda: run.stop(self.victim))

    def judge(self, j):
        v = self.victim
        rest = self.survivors(j, v)
        if all(c == 0 for c in j.codes.values()):
            return None
        if j.committed(j.ranks):
            return j.after_verdict(rest, {v}, {8, 9})
        j.demand(j.codes[v] in (5, 8, 9), "the stopped rank", v, "ended with", j.codes[v])
        if v == 0:
            for r in rest:
                j.demand(j.codes[r] in (5, 8, 9), "rank", r, "ended with", j.codes[r])
                j.demand("rank 0" in j.said[r], "rank", r, "does not blame rank 0")
            return None
        return j.aborted(rest, {5, 9}, {v})


class Paused(Fault):
    """SIGSTOP and soon SIGCONT."""

    name = "paused"
    meets = ("inherit", "hostfile", "store")

    def draw(self):
        self.when, self.length = self.moment(), self.rng.uniform(0.02, 0.2)

    def __str__(self):
        return f"rank {self.victim} stopped after {self.when:.3f} s for {self.length:.3f} s"

    def arm(self, run):
        run.at(self.when, lambda: run.stop(self.victim))
        run.at(self.when + self.length, lambda: run.resume())


class Ended(Fault):
    """SIGTERM or SIGINT, at a time or at a system call."""

    name, quick, meets = "ended", True, ("inherit", "hostfile", "store")

    def draw(self):
        self.signal = self.rng.choice((signal.SIGTERM, signal.SIGINT))
        self.when = at_call(self.rng, list(CALLS)) if self.rng.random() < 0.7 else self.moment()

    def __str__(self):
        return f"rank {self.victim} gets {self.signal.name} at {self.when}"

    def arm(self, run):
        if isinstance(self.when, tuple):
            run.under(self.victim, f"signal={int(self.signal)}", str(self.when[0]), *self.when[1])
        else:
            run.at(self.when, lambda: run.signal(self.victim, self.signal))

    def judge(self, j):
        v = self.victim
        rest = self.survivors(j, v)
        if all(c == 0 for c in j.codes.values()):
            return None
        j.demand(j.codes[v] == 128 + self.signal, "rank", v, "ended with", j.codes[v])
        if j.committed(j.ranks):  # it waits until the commit is done
            for r in j.ranks:
                j.demand(r == v or j.codes[r] == 0, "rank", r, "ended with", j.codes[r], "after the verdict")
            return None
        j.demand(j.kept(v), "the old output of rank", v, "was touched")
        if v == 0:
            for r in rest:
                j.demand(j.codes[r] in (5, 8), "rank", r, "ended with", j.codes[r])
                j.demand("rank 0" in j.said[r], "rank", r, "does not blame rank 0")
            return None
        return j.aborted(rest, {5, 8}, {v})


# ---- links ----


class Link(Fault):
    """The first connection of one link is reset, cut, or has a bit flipped after some bytes."""

    name, quick, meets = "link", True, ("inherit", "hostfile")

    def draw(self):
        self.victim = self.rng.randrange(1, self.case.size)
        self.control = self.rng.random() < 0.4
        self.what = self.rng.choice(("flip", "cut", "reset"))
        self.byte = int(10 ** self.rng.uniform(0, 3.7 if not self.control else 3.3)) - 1
        self.bit = self.rng.randrange(8)
        self.down = self.control and self.rng.random() < 0.5

    def __str__(self):
        return f"{self.what} at byte {self.byte} {'from' if self.down else 'to'} {'rank 0, control link of' if self.control else ''} rank {self.victim}"

    def arm(self, run):
        make = {"flip": lambda: px.Flip(8 * self.byte + self.bit), "cut": lambda: px.Cut(self.byte), "reset": lambda: px.Reset(self.byte)}
        self.fault = make[self.what]()
        up, down = (None, self.fault) if self.down else (self.fault, None)
        if self.control:
            run.via[self.victim] = lambda port: run.proxy(port, up, down)
        else:
            reserved, port = reserve_port()
            run.keep.append(reserved)
            via = run.proxy(port, up, down)
            run.args[self.victim] += ["--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{via}"]
            run.args[self.victim] += [] if run.case.kind in NO_LANES else ["--lanes", "tcp"]

    def judge(self, j):
        if all(c == 0 for c in j.codes.values()):
            return None
        v = self.victim
        if not j.demand(self.fault.hit, "failed without a fault"):
            return None
        rest = self.survivors(j, v) if self.control else j.ranks
        if j.committed(j.ranks):
            return j.after_verdict(rest, {v, 0}, {8, 9, 10})
        if self.control:
            # Both ends see it, each in its way; the others are told by rank 0.
            j.demand(j.codes[v] in (5, 6, 8, 9, 10), "rank", v, "ended with", j.codes[v])
            return j.aborted(rest, {5, 8, 9, 10}, {v})
        return j.aborted(rest, {8, 9, 10})


# ---- calls that fail ----


class Disk(Fault):
    """A call fails on one rank, or does half of what it was asked to."""

    name, quick, meets = "call", True, ("inherit", "hostfile", "store")
    ERRORS = {
        "pwrite64": ("ENOSPC", "EIO", "EDQUOT"), "pread64": ("EIO",), "fallocate": ("ENOSPC", "EIO"), "fsync": ("EIO",),
        "linkat": ("EIO", "EEXIST"), "renameat": ("EIO", "ENOSPC"), "close": ("EIO",), "openat": ("EACCES", "EMFILE", "ENFILE"),
        "mmap": ("ENOMEM",), "clone3": ("EAGAIN",), "socket": ("EMFILE",), "epoll_create1": ("EMFILE",),
    }  # fmt: skip
    COUNTS = {**CALLS, "openat": 45, "mmap": 170, "clone3": 2, "socket": 6, "epoll_create1": 2}

    def draw(self):
        self.call = self.rng.choice(list(self.ERRORS))
        self.error = self.rng.choice(self.ERRORS[self.call])
        # The first mmap is the loader's own: without it the loader crashes before any code of ours.
        self.k = self.rng.randrange(2 if self.call == "mmap" else 1, self.COUNTS[self.call] + 1)

    def __str__(self):
        return f"rank {self.victim}: {self.call} number {self.k} fails with {self.error}"

    def arm(self, run):
        if not (run.sanitized and self.call in ("mmap", "clone3")):  # they end where they get none
            run.under(self.victim, f"error={getattr(errno, self.error)}", str(self.k), self.call)

    def judge(self, j):
        v = self.victim
        rest = self.survivors(j, v)
        if all(c == 0 for c in j.codes.values()):
            return None
        if not j.demand(j.run.injected.get(v), "failed without a fault"):
            return None
        if j.codes[v] == 127:  # its libraries could not be loaded
            for r in rest:
                j.demand(j.codes[r] == 5, "rank", r, "ended with", j.codes[r])
            return None
        j.demand(j.codes[v] in (1, 2, 3, 4, 5, 6, 11), "rank", v, "ended with", j.codes[v])
        if j.committed(j.ranks):  # renaming, or the folder's fsync
            j.demand(self.call in ("renameat", "fsync", "openat", "close"), "a", self.call, "failed after the verdict")
            for r in j.ranks:
                j.demand(j.codes[r] == j.codes[v] and j.culprit(r) == v, "after the verdict rank", r, "ended with", j.codes[r])
                j.demand(r == v or not j.kept(r) or not j.new(r), "rank", r, "has no new file")
            return None
        if all(j.codes[r] == 5 for r in rest):  # it could not tell
            return None
        return j.aborted(j.ranks, {j.codes[v]}, {v})


class Harmless(Disk):
    """What a program has to bear: a call is interrupted, or does half."""

    name, quick = "harmless", False
    HALF = ("pwrite64", "pread64")
    INTERRUPTED = ("pwrite64", "pread64", "fsync", "linkat", "renameat", "fallocate", "connect", "sendmsg", "recvfrom", "epoll_wait", "accept4")

    def draw(self):
        self.half = self.rng.random() < 0.3
        self.call = self.rng.choice(self.HALF if self.half else self.INTERRUPTED)
        self.error = "EINTR"
        self.k = self.rng.randrange(1, self.COUNTS[self.call] + 1)

    def __str__(self):
        return f"rank {self.victim}: {self.call} number {self.k} " + ("does half" if self.half else "is interrupted")

    def arm(self, run):
        if self.half:
            run.under(self.victim, "short", str(self.k), self.call)
        else:
            super().arm(run)

    def judge(self, j):
        if j.codes[self.victim] != 127:  # the loader of its libraries bears no short read
            j.success()


class Limits(Fault):
    name, quick, meets = "limits", True, ("inherit", "hostfile", "store")

    def draw(self):
        self.what = self.rng.choice(("fsize", "nofile", "as"))
        self.value = {
            "fsize": lambda: self.rng.choice((1, 100, 1000, 4096)),
            "nofile": lambda: self.rng.randrange(3, 40),
            "as": lambda: self.rng.choice((10, 20, 30, 40, 60, 100, 200)) << 20,
        }[self.what]()

    def __str__(self):
        return f"rank {self.victim}: --{self.what}={self.value}"

    def arm(self, run):
        if not (self.what == "as" and run.sanitized):  # they take more than there is
            run.wrap[self.victim] = ["prlimit", f"--{self.what}={self.value}", "--"]

    def judge(self, j):
        v = self.victim
        rest = self.survivors(j, v)
        if all(c == 0 for c in j.codes.values()):
            return None
        if j.codes[v] in (126, 127):
            for r in rest:
                j.demand(j.codes[r] == 5, "rank", r, "ended with", j.codes[r])
            return None
        want = {4, 11} if self.what == "fsize" else {11}
        j.demand(j.codes[v] in want, "rank", v, "ended with", j.codes[v])
        if all(j.codes[r] == 5 for r in rest):
            return None  # it could not tell
        return j.aborted(j.ranks, want, {v})


# ---- ranks that disagree ----


class Secret(Fault):
    """One rank has another secret."""

    name, quick, meets = "secret", True, ("inherit", "hostfile", "store")

    def __str__(self):
        return f"rank {self.victim} has another secret"

    def arm(self, run):
        run.env[self.victim]["COLLCTL_SECRET"] = "f" * 64

    def judge(self, j):
        v, by_store = self.victim, self.case.meet == "store"
        for r in j.ranks:
            strange = (r == v) if v else (r != 0)
            want = 6 if strange and not by_store else 5
            j.demand(j.codes[r] == want, "rank", r, "ended with", j.codes[r], "instead of", want)
            if strange:
                j.demand("secret" in j.said[r], "rank", r, "does not say that the secrets differ")
            j.demand(j.kept(r), "the old output of rank", r, "was touched")


class Size(Fault):
    """One rank has another -n."""

    name, quick, meets = "size", True, ("inherit", "hostfile", "store")

    def __str__(self):
        return f"rank {self.victim} has -n {self.case.size + 1}"

    def arm(self, run):
        run.sizes[self.victim] = self.case.size + 1

    def judge(self, j):
        for r in j.ranks:
            if j.codes[self.victim] == 2:  # --counts and --steps don't fit that size
                j.demand(j.codes[r] == (2 if r == self.victim else 5), "rank", r, "ended with", j.codes[r])
            else:
                j.demand(j.codes[r] == 7, "rank", r, "ended with", j.codes[r])
            j.demand(j.kept(r), "the old output of rank", r, "was touched")


class Disagree(Fault):
    """One rank has another operation or another root, or calls another collective."""

    name = "disagree"
    meets = ("inherit", "hostfile", "store")

    def draw(self):
        choices = ["kind"]
        if self.case.kind in ("allreduce", "reduce", "reduce-scatter", "scan", "exscan"):
            choices.append("op")
        if self.case.kind in ("reduce", "broadcast", "scatter", "gather"):
            choices.append("root")
        self.what = self.rng.choice(choices)

    def __str__(self):
        return f"rank {self.victim} has another {self.what}"

    def arm(self, run):
        c, v = self.case, self.victim
        if self.what == "kind":
            run.commands[v] = ["barrier"] if c.kind != "barrier" else ["broadcast", "-o", "nothing", "--root", str((v + 1) % c.size)]
        elif self.what == "op":
            run.args[v] += ["--op", "max" if c.op == "min" else "min"]
        else:
            run.args[v] += ["--root", str((c.root + 1) % c.size)]

    def judge(self, j):
        refused = {2, 3} & set(j.codes.values())  # its own command line is none
        j.aborted(j.ranks, {7} | refused)


class Input(Fault):
    """An input is cut, rewritten in place, or replaced while the job runs."""

    name, meets = "input", ("inherit", "hostfile", "store")

    def draw(self):
        self.victim = next(r for r in range(self.case.size) if self.case.has_input(r))
        self.what = self.rng.choice(("truncated", "rewritten", "replaced"))
        self.when = self.moment()

    def __str__(self):
        return f"the input of rank {self.victim} is {self.what} after {self.when:.3f} s"

    def arm(self, run):
        c, v = self.case, self.victim
        path, other = c.input(v), os.path.join(c.dir, "other", os.path.basename(c.input(v)))
        os.makedirs(os.path.dirname(other), exist_ok=True)
        now = c.data(v, 0, 1)
        if c.form == "set":  # one of its files
            c.save(other, now)
            path, other = (os.path.join(p, "0.safetensors") for p in (path, other))
            now = {n: now[n] if n in ("a", "b.x") else x for n, x in c.data(v).items()}
        elif c.form == "tree":
            c.save(other, now)
            name = self.rng.choice(list(now))
            path, other = (os.path.join(p, name) for p in (path, other))
            now = {**c.data(v), name: now[name] if self.what != "truncated" else c.data(v)[name][: os.path.getsize(path) // 2]}
        elif self.what == "truncated":
            if c.form == "file":
                now = c.data(v)[: os.path.getsize(path) // 2]
        else:
            c.save(other, now)
        if self.what != "truncated" or c.form in ("file", "tree"):
            c.worlds.append(c.results(v, now))

        def strike():
            if self.what == "truncated":
                os.truncate(path, os.path.getsize(path) // 2)
            elif self.what == "rewritten":
                with open(other, "rb") as f, open(path, "r+b") as g:
                    g.write(f.read())
            else:
                os.replace(other, path)

        run.at(self.when, strike)

    def judge(self, j):
        if all(c == 0 for c in j.codes.values()):
            return None
        # Ranks that compare may have read the one or the other.
        if self.case.kind == "verify" and 10 in j.codes.values():
            return j.aborted(j.ranks, {10})
        if self.case.kind == "verify" and 7 in j.codes.values():  # cut before it was opened
            return j.aborted(j.ranks, {7}, {self.victim})
        return j.aborted(j.ranks, {3}, {self.victim})


# ---- the store, the launcher ----


class Store(Fault):
    """The store ends, and may come back empty at the same port."""

    name, quick, meets = "store", True, ("store",)

    def draw(self):
        self.restart = self.rng.random() < 0.5
        self.when = self.moment()
        self.pause = self.rng.uniform(0, 0.1)
        self.quick = not self.restart

    def alone(self):
        return None

    def __str__(self):
        return f"the store is killed after {self.when:.3f} s" + (f" and started again {self.pause:.3f} s later" if self.restart else "")

    def arm(self, run):
        store = run.own_store()
        run.at(self.when, store.kill)
        if self.restart:
            run.at(self.when + self.pause, store.start)

    def judge(self, j):
        if self.restart or all(c == 0 for c in j.codes.values()):
            return j.success()
        # No rank may hear of another: each waits to its end.
        for r in j.ranks:
            j.demand(j.codes[r] == 5, "rank", r, "ended with", j.codes[r])
            j.demand(j.kept(r), "the old output of rank", r, "was touched")
        return None


class Late(Fault):
    """Ranks start late."""

    name = "late"
    meets = ("inherit", "hostfile", "store")

    def draw(self):
        self.delays = {r: self.rng.uniform(0, 0.3) for r in range(self.case.size) if self.rng.random() < 0.5}

    def __str__(self):
        return "late ranks: " + ", ".join(f"{r} by {d:.3f} s" for r, d in self.delays.items())

    def arm(self, run):
        run.delays = self.delays


class Launcher(Fault):
    """`run` gets a signal, or one of its ranks is killed."""

    name, quick, meets = "launcher", True, ("run",)

    def draw(self):
        self.what = self.rng.choice(("SIGTERM", "SIGINT", "a rank killed"))
        self.when = self.moment()

    def __str__(self):
        return f"run: {self.what} after {self.when:.3f} s"

    def killed(self):
        return set(range(self.case.size)) if self.what == "a rank killed" else set()

    def arm(self, run):
        def strike():
            if self.what == "a rank killed":
                run.kill_child(self.victim)
            else:
                run.signal(0, getattr(signal, self.what))

        run.at(self.when, strike)

    def judge(self, j):
        code = j.codes[0]
        if self.what == "a rank killed":
            j.demand(code in (0, 5, 8, 137), "run ended with", code)
        else:
            j.demand(code in (0, 128 + getattr(signal, self.what)), "run ended with", code)


def draw(rng, case):
    """A fault that fits the case; the case may change how its ranks meet."""
    choices = [Fault, Fault, Killed, Killed, TwoKilled, Stopped, Paused, Ended, Ended, Disk, Disk, Harmless, Limits, Size, Disagree, Late]
    if case.size > 1:
        choices += [Link, Link, Link]
    if not case.insecure:
        choices += [Secret]
    if case.kind != "barrier" and case.input_may_change():
        choices += [Input]
    choices += {"store": [Store, Store], "run": [Launcher] * 6 + [Fault] * 4}.get(case.meet, [])
    fault = rng.choice(choices)
    if case.meet not in fault.meets:
        case.meet = rng.choice(fault.meets)
    return fault(rng, case)

