"""Broadcasts of files and folders to ranks that have something already: old versions, and parts of jobs that were
ended."""

import os
import shutil

import numpy as np

from cases import Case
from job import OLD

SIZES = (0, 1, 5000, 700_000, 1 << 20, 2_500_000, (3 << 20) + 5)
TREE = ("a", "b/c", "b/d", "e/f/g")
MANY = tuple(f"many/{i}" for i in range(80))  # more than a sink gives files of their own
LINKS = {"l": "a", "e/up": "../b/c", "m": "nowhere"}
PART = ".collctl-part"


class Copies(Case):
    def __init__(self, seed, table):
        super().__init__(seed, table, "broadcast")

    # ---- drawing ----

    def draw_form(self):
        return self.rng.choice(("file", "file", "tree"))

    def draw_data(self):
        rng = self.rng
        self.inputs = 1
        self.op, self.dtype, self.counts, self.rows, self.shape, self.order = "sum", "u8", None, None, (1,), "any"
        names = TREE[: rng.randrange(1, len(TREE) + 1)] if self.form == "tree" else ("",)
        many = MANY if self.form == "tree" and rng.random() < 0.3 else ()
        self.lengths = {n: rng.choice(SIZES) for n in names} | {n: rng.choice(SIZES[:3]) for n in many}
        names += many
        self.delta = rng.random() < 0.3
        self.update = not self.delta and rng.random() < 0.5
        self.resume = rng.random() < 0.7
        # What each rank has of each file.
        kinds = ("none", "text", "equal", "touched", "base", "longer", "cut")
        self.olds = {r: {n: rng.choice(kinds) for n in names} for r in range(self.size)}
        kinds = ("none", "begun", "begun", "damaged", "whole", "longer", "other", "hole")
        some = 0.6 if self.resume else 0.1
        self.parts = {r: {n: rng.choice(kinds) if rng.random() < some else "none" for n in names} for r in range(self.size)}
        # The targets of symbolic links, and what each rank has in their places.
        self.links = LINKS if self.form == "tree" and rng.random() < 0.5 else {}
        self.old_links = {r: {n: rng.choice((None, to, "other", "../a")) for n, to in self.links.items()} for r in range(self.size)}
        self.own = self.meet != "run" and rng.random() < 0.5  # the root's output is its input

    def draw_options(self):
        rng = self.rng
        o = super().draw_options() + ([] if self.form == "file" else ["--raw-file"])
        o += ["--links"] if self.links else []
        for name, given in (("--update", self.update), ("--delta", self.delta), ("--resume", self.resume)):
            o += [name] if given else []
            o += ["base"] if given and name == "--delta" else []
        if (self.update or self.delta) and rng.random() < 0.4:
            o += ["--checksum"]
        if rng.random() < 0.2:
            o += ["--no-digest-cache"]
        return o

    # ---- files ----

    def suffix(self):
        return ".dat" if self.form == "file" else ".d"

    def target(self, r):
        return self.input(r) if self.own and r == self.root else super().target(r)

    def at(self, top, name):
        return os.path.join(top, name) if name else top

    def paths(self, r):
        return [self.at(self.target(r), n) for n in (*self.lengths, *self.links)]

    def part(self, r, name):
        folder, base = os.path.split(self.at(self.target(r), name))
        return os.path.join(folder, f".{base}{PART}")

    def data(self, r, i=0, salt=0):
        files = {n: np.random.default_rng([self.seed % (1 << 40), salt, k]).bytes(size) for k, (n, size) in enumerate(self.lengths.items())}
        return files if self.form == "tree" else files[""]

    def contents(self, salt=0):
        """{name: bytes} of the input."""
        x = self.data(self.root, 0, salt)
        return x if self.form == "tree" else {"": x}

    def base(self, name):
        """The root's old version: some bytes differ."""
        x = bytearray(self.contents()[name])
        for k in range(0, len(x), 1_300_000):
            x[k] ^= 0x55
        return bytes(x)

    def old_of(self, r, name):
        x = self.contents()[name]
        made = {
            "none": None, "text": OLD, "equal": x, "touched": x, "base": self.base(name), "longer": x + b"more",
            "cut": x[: len(x) // 2],
        }  # fmt: skip
        return x if self.own and r == self.root else made[self.olds[r][name]]

    def part_of(self, r, name):
        x = self.contents()[name]
        begun = x[: len(x) * 3 // 4]
        made = {
            "none": None, "begun": begun, "damaged": begun[:100] + b"!" + begun[101:], "whole": x, "longer": x + bytes(5000),
            "other": self.contents(9)[name], "hole": bytes(len(x) // 2) + x[len(x) // 2 :],
        }  # fmt: skip
        return made[self.parts[r][name]]

    def make(self, directory):
        self.dir = directory
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        for n, x in self.contents().items():
            self.put(self.at(self.input(self.root), n), x)
            self.put(self.at(os.path.join(directory, "base"), n), self.base(n))
        self.old = {r: {} for r in range(self.size)}
        self.made_parts = {}
        for n, to in self.links.items():
            self.put_link(self.at(self.input(self.root), n), to)
        for r in range(self.size):
            for n in self.lengths:
                self.make_copy(r, n)
            for n, to in self.links.items():
                self.make_link(r, n, to)
        self.worlds = [self.results()]
        self.known = set(self.files())

    def make_copy(self, r, name):
        path, source = self.at(self.target(r), name), self.at(self.input(self.root), name)
        old, part = self.old_of(r, name), self.part_of(r, name)
        self.old[r][path] = old
        if old is not None and path != source:
            self.put(path, old)
        if self.olds[r][name] == "equal" and path != source:
            shutil.copystat(source, path)
        if part is not None:
            self.put(self.part(r, name), part)
            os.chmod(self.part(r, name), 0o600)
            self.made_parts[self.part(r, name)] = part

    def make_link(self, r, name, to):
        path = self.at(self.target(r), name)
        own = self.own and r == self.root
        old = to if own else self.old_links[r][name]
        self.old[r][path] = old and self.link(old)
        if old and not own:
            self.put_link(path, old)

    def link(self, to):
        """What stands for a symbolic link as the contents of a file do for a file."""
        return b"-> " + to.encode()

    def put_link(self, path, to):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(to, path)

    def put(self, path, x):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(x)

    def go_on(self):
        """Before the job is run again with what it has left."""
        for name in self.temporary():
            if not name.endswith(PART):
                os.unlink(os.path.join(self.dir, name))
        for files in self.old.values():
            for path in files:
                files[path] = self.read(path)
        self.known |= set(self.files())

    def read(self, path):
        return self.link(os.readlink(path)) if os.path.islink(path) else super().read(path)

    def files(self):
        return [os.path.join(d, n) for d, _, names in os.walk(self.dir) for n in names]

    # ---- what must hold ----

    def results(self, changed=None, other=None):
        x = self.contents() if changed is None else {"": other}
        x.update({n: self.link(to) for n, to in self.links.items()})
        return {r: {self.at(self.target(r), n): x[n] for n in x} for r in range(self.size)}

    def holds(self, path, want):
        return self.read(path) == want

    def input_may_change(self):
        return self.form == "file" and not self.own

    def may_stay(self, name, failed):
        """May the hidden file be there at the end? @failed: the ranks that have failed."""
        path = os.path.join(self.dir, name)
        parts = {self.part(r, n): r for r in range(self.size) for n in self.lengths}
        if path not in parts:
            return False
        if not self.resume:
            return self.read(path) == self.made_parts.get(path)
        return parts[path] in failed

    def strangers(self):
        """Files that no rank was to write."""
        outputs = {p for r in range(self.size) for p in self.paths(r)}
        names = [os.path.relpath(p, self.dir) for p in self.files() if p not in self.known | outputs]
        return [n for n in names if os.path.basename(n)[0] != "." and not n.startswith(("hosts.", "report.", "other"))]
