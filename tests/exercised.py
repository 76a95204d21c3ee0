#!/usr/bin/env python3
"""What the tests exercise, one fact a line, sorted, to be compared before and after a change of the tests.

    tests/exercised.py                         what the sources say
    tests/exercised.py --build BUILD           and what BUILD's unit tests count (make unit): algorithms, mutants
    tests/exercised.py --gcov BUILD [FOLDER...]    only the lines that tests of BUILD have run, in lib and algorithms
        (make BUILD=BUILD CFLAGS='-O0 -g --coverage' LDFLAGS=--coverage NVCC= all unit, then any tests)
    tests/exercised.py --compare BEFORE AFTER      what of one output the other lacks, what other commands run, how many
        facts are new, and the share of lines that ran; exit code 1 if AFTER lacks any

The facts, with tabs between their parts:

    row       row of docs/FAULTS.md, a test that shows it
    test      suite (tests/run.sh), test, the commands that run it: check, check-more, check-long
    suite     suite of one test, the commands
    random    a fault of jobs with random faults (tests/fault/faults.py)
    bug       a bug that is planted in the simulation
    mutation  a way in which schedules are broken
    mutants   what test_mutants counted
    verified  collective, algorithm, the numbers of ranks for which it was proved
    folder    folder, lines that ran, lines
    file      file, lines that ran, lines

Files stand without their folders, so that one that moves changes nothing.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMANDS = {"check": ([], {}), "check-more": (["--more"], {}), "check-long": ([], {"COLLCTL_LONG": "1"})}


def output(*command, **more):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def paths():
    """The files of the checkout, by their names without folders; of one name the first in tests."""
    found = {}
    for path in sorted(output("git", "ls-files").splitlines(), key=lambda p: not p.startswith("tests/")):
        found.setdefault(os.path.basename(path), path)
    return found


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows():
    """Each row of docs/FAULTS.md with each test that it names."""
    for line in text_of("docs/FAULTS.md").splitlines():
        row = re.match(r"\| (\d+) \|", line)
        for test in re.findall(r"`(tests/[^`]+)`", line.rsplit(" | ", 1)[-1]) if row else ():
            yield "row", row[1].zfill(2), os.path.basename(test.split(": ")[0]) + test[len(test.split(": ")[0]):]


def bats_tests(path, tag):
    """The names of a file's tests; only those with @tag if it is not None."""
    tags, of_file = set(), set()
    for line in text_of(path).splitlines():
        if found := re.match(r"# bats (test|file)_tags=(.*)", line):
            (tags if found[1] == "test" else of_file).update(re.split(r"[ ,]+", found[2]))
        elif found := re.match(r"@test +(['\"])(.*)\1 *\{", line):
            if tag is None or tag in tags | of_file:
                yield found[2]
            tags = set()


def unit_tests(path):
    return re.findall(r"(?m)(?:^\s*\w*TEST(?:_WITH)?|\bcmocka_unit_test\w*)\(\s*(\w+)", text_of(path))


def tests_of(command, files):
    """The names of a suite's tests; None if it is one test."""
    words = command.split()
    for word in words:
        name = os.path.basename(word)
        if name.endswith(".bats"):
            tag = words[words.index("--filter-tags") + 1] if "--filter-tags" in words else None
            return list(bats_tests(files[name], tag))
        if "/unit/test_" in word:
            return unit_tests(files[name + ".c"])
    return None


def short(suite):
    """A suite's name without folders in between: asan/unit/net/loop is asan/unit/loop."""
    parts = suite.split("/")
    first = 2 if parts[0] in ("asan", "tsan", "clang") else 1
    return "/".join(parts[:first] + parts[first:][-1:])


def suites(files):
    """Each test of each suite, with the commands that run it."""
    runs = collections.defaultdict(list)
    for name, (arguments, variables) in COMMANDS.items():
        listed = output("tests/run.sh", *arguments, "--list", env={**os.environ, **variables})
        for line in listed.splitlines():
            suite, command = line.split("\t", 1)
            tests = tests_of(command, files)
            for test in [None] if tests is None else tests:
                if name not in runs[short(suite), test]:
                    runs[short(suite), test].append(name)
    for (suite, test), names in runs.items():
        yield ("suite", suite, " ".join(names)) if test is None else ("test", suite, test, " ".join(names))


def planted(files):
    for name in re.findall(r"^class (\w+)\(", text_of(files["faults.py"]), re.M):
        yield "random", name
    for path in output("git", "ls-files", "*/bugs/*.patch").split():
        yield "bug", os.path.basename(path)[: -len(".patch")]
    for name in re.findall(r"^\t(MUT_\w+)", text_of(files["test_mutants.c"]), re.M):
        yield "mutation", name


def counted(build):
    """What the unit tests of schedules print about what they have proved and broken."""
    said = {}
    for name in "verify", "mutants":
        program = os.path.join(ROOT, build, "unit", "test_" + name)
        said[name] = output(program, stderr=subprocess.STDOUT, env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"})
    for what, size in re.findall(r"verified (\S+ \S+) for P = (\S+)", said["verify"]):
        yield "verified", *what.split(), size
    for text in re.findall(r"(\d+ (?:mutants|dropped).*)", said["mutants"]):
        yield "mutants", text


def covered(build, folders):
    """The lines that ran, of all objects below @build, for each folder and each name of a file in @folders."""
    lines = collections.defaultdict(dict)  # path -> line -> did it run?
    notes = []
    for place, _, names in os.walk(os.path.join(ROOT, build)):
        notes += [os.path.join(place, name) for name in names if name.endswith(".gcda")]
    for note in notes:
        for line in output("gcov", "--json-format", "--stdout", note, stderr=subprocess.DEVNULL).splitlines():
            for file in json.loads(line)["files"]:
                path = os.path.relpath(os.path.join(ROOT, file["file"]), ROOT)
                if any(path.startswith(folder.rstrip("/") + "/") for folder in folders):
                    for at in file["lines"]:
                        ran = lines[path].get(at["line_number"], False)
                        lines[path][at["line_number"]] = ran or at["count"] > 0
    sums = collections.defaultdict(lambda: [0, 0])
    for path, ran in lines.items():
        for key in ("folder", os.path.dirname(path)), ("file", os.path.basename(path)):
            sums[key][0] += sum(ran.values())
            sums[key][1] += len(ran)
    for (kind, name), (some, all_of) in sums.items():
        yield kind, name, str(some), str(all_of)


def read_facts(path):
    """A file's facts: kind -> what -> the last column, if it says how the fact holds and not which it is."""
    facts = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as file:
        for kind, *parts in (line.rstrip("\n").split("\t") for line in file):
            if kind in ("folder", "file"):
                facts[kind][parts[0],] = int(parts[1]), int(parts[2])
            elif kind in ("test", "suite"):
                facts[kind][tuple(parts[:-1])] = parts[-1]
            elif kind == "mutants":
                facts[kind][re.sub(r"\d+", "N", parts[0]),] = parts[0]
            else:
                facts[kind][tuple(parts)] = None
    return facts


def shares(folders):
    """The percentage of lines that ran in each top-level folder."""
    sums = collections.defaultdict(lambda: [0, 0])
    for (name,), (some, all_of) in folders.items():
        sums[name.split("/")[0]][0] += some
        sums[name.split("/")[0]][1] += all_of
    return {name: f"{100 * some / all_of:.1f} % of {all_of}" for name, (some, all_of) in sums.items() if all_of}


def compare(before, after):
    """Print the differences; is anything lost? Lines of files are no facts: their number follows the code."""
    lost = False
    for kind in sorted({*before, *after} - {"folder", "file"}):
        old, new = before[kind], after[kind]
        for what in sorted(old.keys() - new.keys()):
            print("lost", kind, *what, sep="\t")
            lost = True
        for what in sorted(old.keys() & new.keys()):
            if old[what] != new[what]:
                print("moved", kind, *what, f"{old[what]} -> {new[what]}", sep="\t")
        print("same", kind, len(old.keys() & new.keys()), f"new: {len(new.keys() - old.keys())}", sep="\t")
    old, new = shares(before["folder"]), shares(after["folder"])
    for name in sorted({*old, *new}):
        print("lines", name, f"{old.get(name, 'none')} -> {new.get(name, 'none')}", sep="\t")
    for what in sorted(before["file"].keys() & after["file"].keys()):
        was, is_now = (some / (all_of or 1) for some, all_of in (before["file"][what], after["file"][what]))
        if was - is_now >= 0.02:
            print("less", "file", *what, f"{100 * was:.1f} % -> {100 * is_now:.1f} %", sep="\t")
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="BUILD")
    parser.add_argument("--gcov", metavar="BUILD")
    parser.add_argument("folders", metavar="FOLDER", nargs="*", default=["lib", "algorithms"])
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"))
    arguments = parser.parse_args()
    if arguments.compare:
        sys.exit(compare(*map(read_facts, arguments.compare)))
    if arguments.gcov:
        facts = list(covered(arguments.gcov, arguments.folders))
        if not facts:
            sys.exit(f"exercised.py: no test has run that was built with --coverage in {arguments.gcov}")
    else:
        files = paths()
        facts = [*rows(), *suites(files), *planted(files)]
        if arguments.build:
            facts += counted(arguments.build)
    for fact in sorted(set(facts)):
        print("\t".join(fact))


main()
