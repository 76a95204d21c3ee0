#!/usr/bin/env python3
"""Whole jobs with random faults, drawn from a seed and checked against numpy.

  jobs.py SYSFAULT [--seed N] [--jobs N] [--of KIND] [--keep DIR] [--verbose]

Job i has the seed N + i: `--seed N --jobs 1` runs a single one again. COLLCTL names the binary. Prints a
line for each thing that went wrong, keeps the folder of such a job, and last prints `N passed, N failed`.

What must hold whatever the fault:
  the job ends; exit codes are those of the contract; who fails says why, and no sanitizer says anything;
  each output file is the old one or the new one, whole; who ends with 0 has new files, and then all have;
  before the verdict one cause has one exit code and one text;
  no temporary file of a survivor and no process is left, and no part but of a failed rank with --resume; the same
  job without the fault succeeds (a sample), that of copies.py with what the first has left.
What the fault may make of the job is in faults.py.
"""

import argparse
import multiprocessing
import os
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import ctypes

import proxy as px
from cases import KINDS, Case, algorithms
from copies import Copies
from faults import Fault, Input, Judgement, draw
from job import COLLCTL, LOOPBACK, SECRET, Inherited, exit_code, reserve_port

CODES = set(range(12)) | {128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGKILL}
PR_SET_CHILD_SUBREAPER = 36
AGAIN = 0.15  # of the jobs run a second time, without the fault
GOES_ON = 0.6  # of those of copies.py, with what the first time has left
COPIES = 0.15  # of the jobs are those


def sanitized():
    with open(COLLCTL, "rb") as f:
        return re.search(rb"__[at]san_init", f.read()) is not None


class ServedStore:
    """`collctl serve`, ready."""

    def __init__(self):
        self.reserved, self.port = reserve_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.start()

    def start(self):
        ready, told = os.pipe()
        self.process = subprocess.Popen(
            [COLLCTL, "serve", "--listen", f"{LOOPBACK}:{self.port}", "--ready-fd", str(told), "-q"],
            pass_fds=[told], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(told)
        started = os.read(ready, 1)
        os.close(ready)
        if not started:
            raise RuntimeError("the store did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.reserved.close()


class Hangs(Exception):
    pass


class Run:
    """One run of a case under a fault."""

    def __init__(self, tools, case, fault):
        self.tools, self.case, self.fault = tools, case, fault
        self.sanitized = tools.sanitized
        ranks = range(case.size)
        self.wrap, self.args = {r: [] for r in ranks}, {r: [] for r in ranks}
        self.env, self.sizes = {r: {} for r in ranks}, {r: case.size for r in ranks}
        self.commands, self.via, self.delays = {}, {}, {}
        self.keep, self.proxies, self.events, self.stopped = [], [], [], set()
        self.processes, self.pipes, self.codes, self.said, self.lines = {}, {}, {}, {}, {}
        self.reports, self.injected, self.store, self.started = {}, {}, None, None
        fault.arm(self)

    # ---- what a fault may ask for ----

    def at(self, seconds, what):
        self.events.append((seconds, what))

    def under(self, r, *fault):
        """Rank r under sysfault."""
        self.reports[r] = os.path.join(self.case.dir, f"report.{r}")
        self.wrap[r] = [self.tools.sysfault, *fault, "--"]
        self.env[r]["SYSFAULT_REPORT"] = self.reports[r]

    def proxy(self, port, up, down):
        self.proxies.append(px.Proxy(port, up, down))
        return self.proxies[-1].port

    def own_store(self):
        self.store = ServedStore()
        return self.store

    def signal(self, r, sig):
        p = self.processes.get(r)
        if p and p.returncode is None:
            p.send_signal(sig)

    def stop(self, r):
        if r in self.processes and r not in self.codes:
            self.stopped.add(r)
            self.signal(r, signal.SIGSTOP)

    def resume(self):
        for r in self.stopped:
            self.signal(r, signal.SIGCONT)
        self.stopped = set()

    def kill_child(self, n):
        """The n-th rank that `run` has started."""
        parent, children = self.processes[0].pid, []
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/stat") as f:
                    if name.isdigit() and int(f.read().rpartition(")")[2].split()[1]) == parent:
                        children.append(int(name))
            except OSError:
                pass
        if children:
            try:
                os.kill(sorted(children)[n % len(children)], signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended

    # ---- running ----

    def environment(self, r):
        env = dict(self.tools.environment)
        if self.fault.quick:
            env.update(COLLCTL_JOIN_TIMEOUT=f"{self.tools.patience}s", COLLCTL_TIMEOUT=f"{self.tools.patience}s")
        else:
            env.update(COLLCTL_JOIN_TIMEOUT="60s", COLLCTL_TIMEOUT="60s")
        if not self.case.insecure and self.case.meet != "run":
            env["COLLCTL_SECRET"] = SECRET
        if self.wrap[r]:  # sanitizers can't look for leaks where ptrace is in use
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return {**env, **self.env[r]}

    def command(self, r):
        c = self.case
        words = self.commands.get(r) or [c.kind, *c.arguments(r)]
        return [*words, *(["--insecure"] if c.insecure else []), *self.args[r]]

    def meet(self):
        """Prepare how the ranks find each other: {rank: (options, environment, descriptors)}"""
        c = self.case
        if c.meet == "store":
            url = self.store.url if self.store else self.tools.store.url
            return {r: (["-R", url, "-j", f"job{c.seed}.{id(self)}", "-r", str(r), "-n", str(self.sizes[r])], {}, []) for r in range(c.size)}
        if c.meet == "inherit":
            meeting = self.meeting = Inherited()
            self.keep += [meeting.reserved, meeting.listener]
            return {r: ([], meeting.environment(r, self.sizes[r], self.via.get(r, int)), meeting.descriptors(r)) for r in range(c.size)}
        reserved, port = reserve_port()
        self.keep.append(reserved)
        ways = {}
        for r in range(c.size):
            to = self.via[r](port) if r in self.via else port
            hosts = os.path.join(c.dir, f"hosts.{r}")
            with open(hosts, "w") as f:
                f.write(f"{LOOPBACK}:{to}\n" + f"{LOOPBACK}\n" * (c.size - 1))
            ways[r] = (["-H", hosts, "-r", str(r), "-n", str(self.sizes[r])], {}, [])
        return ways

    def start(self, r, options, env, fds):
        command = [*self.wrap[r], COLLCTL, *self.command(r), *options]
        self.spawn(r, command, {**self.environment(r), **env}, fds)
        if fds and r == 0:
            self.meeting.listener.close()

    def spawn(self, r, command, env, fds=()):
        out, err = os.pipe()
        self.lines[r] = shlex.join(command)
        self.processes[r] = subprocess.Popen(
            command, env=env, cwd=self.case.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, pass_fds=fds
        )
        os.close(err)
        os.set_blocking(out, False)
        self.pipes[r] = out

    def start_all(self):
        c = self.case
        self.started = time.monotonic()
        if c.meet == "run":
            words = [c.kind, *self.for_run(), *(["--insecure"] if c.insecure else [])]
            self.spawn(0, [COLLCTL, "run", "-n", str(c.size), "--", *words], self.environment(0))
            return
        for r, way in self.meet().items():
            if self.delays.get(r):
                self.at(self.delays[r], lambda r=r, way=way: self.start(r, *way))
            else:
                self.start(r, *way)
        self.expected = c.size

    def for_run(self):
        """The arguments of a rank that has all, with {rank} in the names."""
        c = self.case
        r = c.root
        words = c.arguments(r)
        for name in {c.target(r), *(c.input(r, i) for i in range(c.inputs))}:
            every = os.path.join(c.dir, os.path.relpath(name, c.dir).replace(f".{r}", ".{rank}", 1))
            words = [every if w == name else w for w in words]
        return words

    def wait(self):
        """Until all have ended, doing what is to be done at its time."""
        poll, fds = select.poll(), {}
        end = self.started + self.tools.limit
        events = sorted(self.events, key=lambda e: e[0])
        count = 1 if self.case.meet == "run" else self.case.size
        known = set()
        while len(self.codes) < count:
            for r in set(self.processes) - known:
                fd = os.pidfd_open(self.processes[r].pid)
                fds[fd] = r
                known.add(r)
                poll.register(fd, select.POLLIN)
                self.hear(r, poll)
            now = time.monotonic()
            if events and now >= self.started + events[0][0]:
                events.pop(0)[1]()
                continue
            if self.stopped and not events and set(self.processes) - set(self.codes) <= self.stopped:
                self.resume()
            until = min([end] + [self.started + t for t, _ in events[:1]])
            if now >= end:
                raise Hangs("hangs: " + ", ".join(f"rank {r}" for r in self.processes if r not in self.codes))
            for fd, _ in poll.poll(max(0, until - now) * 1000 + 1):
                r = fds.get(fd)
                if r is None:
                    self.drain(next(k for k, v in self.pipes.items() if v == fd), poll)
                    continue
                self.processes[r].wait()
                self.codes[r] = exit_code(self.processes[r])
                poll.unregister(fd)
                os.close(fd)
                del fds[fd]
        for r in self.pipes:
            self.drain(r, None)

    def hear(self, r, poll):
        self.said[r] = b""
        poll.register(self.pipes[r], select.POLLIN)

    def drain(self, r, poll):
        """What a rank has said by now; a pipe that is closed is no longer asked."""
        try:
            while True:
                piece = os.read(self.pipes[r], 65536)
                if not piece:
                    break
                self.said[r] += piece
        except BlockingIOError:
            return
        if poll:
            poll.unregister(self.pipes[r])

    def end(self):
        """Everything that is still there goes. Returns the complaint, if a process was left."""
        for p in self.processes.values():
            if p.returncode is None:
                p.kill()
                p.wait()
        if self.store:
            self.store.close()
        for p in self.proxies:
            p.close()
        for s in self.keep:
            s.close()
        for fd in self.pipes.values():
            os.close(fd)
        self.pipes = {}
        return reap(10)

    def go(self):
        self.start_all()
        wrong = []
        try:
            self.wait()
        except Hangs as e:
            wrong.append(str(e))
        left = self.end()
        if left and not wrong:
            wrong.append(left)
        self.said = {r: s.decode(errors="replace") if isinstance(s, bytes) else s for r, s in self.said.items()}
        for r, path in self.reports.items():
            try:
                with open(path) as f:
                    self.injected[r] = int(f.read().split()[1])
            except (OSError, IndexError):
                self.injected[r] = 0
        if not wrong:
            self.states = {r: {p: self.case.states(r, p) for p in self.case.paths(r)} for r in range(self.case.size)}
            wrong = self.judge()
        return wrong

    # ---- what must hold ----

    def judge(self):
        j = Judgement(self)
        by_run = self.case.meet == "run"
        for r, code in self.codes.items():
            # 127 is the loader's: a library could not be read, before any code of ours ran.
            unloaded = code == 127 and self.wrap[r]
            j.demand(code in CODES or unloaded, "rank", r, "ended with", code)
            j.demand(code in (0, 137) or self.said[r].strip() or self.ended_early(r, code), "rank", r, "failed with", code, "without a word")
            j.demand("Sanitizer" not in self.said[r] and "runtime error:" not in self.said[r], "a sanitizer's report of rank", r)
        for r, files in self.states.items():
            for path, found in files.items():
                j.demand(found, os.path.basename(path), "of rank", r, "is neither old nor new")
        done = [r for r in self.codes if self.codes[r] == 0]
        if done:
            worlds = range(len(self.case.worlds))
            whole = any(all(w in found for files in self.states.values() for found in files.values()) for w in worlds)
            j.demand(whole, f"rank{'s' if len(done) > 1 else ''}", *done, "ended with 0, but not all outputs are right")
        names = self.case.temporary()
        failed = [r for r in j.ranks if self.codes[0 if by_run else r] != 0]
        left = [n for n in names if not any(f"out.{v}" in n or f"in.{v}" in n for v in self.fault.killed())]
        left = [n for n in left if not self.case.may_stay(n, failed)]
        j.demand(not left, "left:", *left)
        j.demand(not self.case.strangers(), "written:", *self.case.strangers())
        if by_run and type(self.fault) is Fault:
            j.demand(self.codes[0] == 0, "run ended with", self.codes[0])
        elif not j.wrong or not by_run:
            self.fault.judge(j)
            alone = self.fault.alone()
            if not by_run and alone is not None and not j.committed(j.ranks):
                j.one_cause([r for r in j.ranks if r not in alone])
        return j.wrong

    def ended_early(self, r, code):
        """By a signal before the program had a say; `run` says nothing that its ranks don't."""
        return code > 128 and (self.processes[r].returncode < 0 or self.case.meet == "run")

    def story(self):
        yield f"seed {self.case.seed}: {self.case.kind}, {self.case.size} ranks, {self.case.meet}, {self.fault}"
        for r in sorted(self.processes):
            said = self.said.get(r, "")
            said = said.decode(errors="replace") if isinstance(said, bytes) else said
            yield f"  rank {r}: exit {self.codes.get(r, 'none')}: {said.strip()}"
        states = getattr(self, "states", {})
        yield "  outputs: " + "; ".join(
            f"{os.path.basename(p)} of {r}: {'/'.join(str(x) for x in s) or 'broken'}" for r, files in states.items() for p, s in files.items()
        )
        for r in sorted(self.lines):
            yield "  " + self.lines[r].replace(self.case.dir + "/", "")


def reap(seconds):
    """Wait for what was left to end; the complaint if it does not."""
    end = time.monotonic() + seconds

    def late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(0.01, end - time.monotonic()))
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return None
    except TimeoutError:
        names = []
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/stat") as f:
                    if name.isdigit() and int(f.read().rpartition(")")[2].split()[1]) == os.getpid():
                        with open(f"/proc/{name}/cmdline") as g:
                            names.append(g.read().replace("\0", " ").strip())
                        os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass
        return f"left running: {'; '.join(names)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Tools:
    def __init__(self, sysfault, keep, verbose, of):
        self.sysfault, self.keep, self.verbose, self.of = sysfault, keep, verbose, of
        self.table = algorithms()
        self.sanitized = sanitized()
        self.patience = 10 if self.sanitized else 6
        self.limit = 240
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("COLLCTL")}
        self.environment.update(LC_ALL="C", no_proxy="*", XDG_CACHE_HOME=os.path.join(tempfile.gettempdir(), "cache"))


def draw_case(tools, seed):
    if tools.of == "copies" or (not tools.of and random.Random(seed ^ 0xC0B1).random() < COPIES):
        return Copies(seed, tools.table)
    return Case(seed, tools.table, tools.of)


def one(tools, seed):
    """The complaints about the job of a seed, with its story."""
    random_fault = random.Random(seed ^ 0x5EED)
    case = draw_case(tools, seed)
    with tempfile.TemporaryDirectory(prefix=f"job.{seed}.") as directory:
        fault = draw(random_fault, case)
        case.make(directory)
        run = Run(tools, case, fault)
        wrong = run.go()
        story = list(run.story())
        copies = isinstance(case, Copies) and not isinstance(fault, Input)
        if not wrong and type(fault) is not Fault and random_fault.random() < (GOES_ON if copies else AGAIN):
            if copies:
                case.go_on()
            else:
                case.make(directory)  # the inputs may have changed
                for name in case.temporary():
                    os.unlink(os.path.join(directory, name))
            run = Run(tools, case, Fault(random_fault, case))
            wrong = ["again, without the fault: " + w for w in run.go()]
            story += ["again:", *run.story()]
        if wrong:
            kept = os.path.join(tools.keep, str(seed))
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept, symlinks=True)
            with open(os.path.join(kept, "story"), "w") as f:
                f.write("\n".join([*wrong, *story, ""]))
    return wrong, story, str(fault)


def worker(tools, seeds, results):
    """Jobs one after another. Orphans become this process's children, so that none is overlooked."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    while (seed := seeds.get()) is not None:
        try:
            wrong, story, _ = one(tools, seed)
        except Exception as e:
            import traceback

            wrong, story = [f"the test itself failed: {e!r}"], traceback.format_exc().splitlines()
        results.put((seed, wrong, story))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("sysfault")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=100)
    p.add_argument("--of", choices=("copies", *KINDS), help="only jobs of copies.py, or of this collective")
    p.add_argument("--keep", default=os.path.join(os.path.dirname(COLLCTL), "faults"))
    p.add_argument("--verbose", action="store_true", help="tell of every job")
    o = p.parse_args()
    tools = Tools(os.path.abspath(o.sysfault), os.path.abspath(o.keep), o.verbose, o.of)
    began = time.monotonic()
    tools.store = ServedStore()
    try:
        context = multiprocessing.get_context("fork")
        seeds, results = context.SimpleQueue(), context.SimpleQueue()
        # Many wait for a timeout, so there are more than processors.
        workers = [context.Process(target=worker, args=(tools, seeds, results)) for _ in range(min(o.jobs, 3 * os.cpu_count()))]
        # A worker gets another seed when a job has ended, so that neither queue's pipe fills up.
        todo = iter([*range(o.seed, o.seed + o.jobs), *(None for _ in workers)])
        for w in workers:
            w.start()
            seeds.put(next(todo))
        failed = 0
        for _ in range(o.jobs):
            seed, wrong, story = results.get()
            seeds.put(next(todo))
            failed += bool(wrong)
            for text in wrong:
                print(f"seed {seed}: {text}")
            if wrong or o.verbose:
                print("\n".join(f"    {line[:1000]}" for line in story))
            if wrong:
                print(f"    again: make check-faults SEED={seed} JOBS=1{f' OF={o.of}' if o.of else ''}; its folder: {os.path.join(tools.keep, str(seed))}", flush=True)
        for w in workers:
            w.join()
    finally:
        tools.store.close()
    print(f"seeds {o.seed} to {o.seed + o.jobs - 1}: {time.monotonic() - began:.1f} s")
    print(f"{o.jobs - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
