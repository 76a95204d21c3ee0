#!/usr/bin/env python3
"""The results of tests/gpu/first-run.sh in one file, FOLDER/results.json, and the page that is made from it, FOLDER/page.md.

  tests/gpu/first_run.py FOLDER          from what the steps have left there: steps, STEP.log, STEP.result
  tests/gpu/first_run.py --page FILE     print the page of a results.json
"""

import json
import re
import sys
import time

LAST = 15  # lines of a step that has failed


def read_json(path):
    """None: the step has no figures."""
    try:
        with open(path, encoding="utf8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def named(said, *names):
    """The lines "NAME: TEXT", as name: [text]."""
    found = {name: [] for name in names}
    for line in said:
        name, colon, text = line.partition(": ")
        if colon and name in found:
            found[name].append(text)
    return found


def read_versions(said):
    found = named(said, "CUDA toolkit", "torch", "system", "GPU")
    own = dict(re.split(r" {2,}", line, maxsplit=1) for line in said if re.match(r"(collctl|GPU plug-in)  +", line))
    return {**found, "collctl": next((line for line in said if line.startswith("collctl ")), None), "plug-in": own.get("GPU plug-in")}


def read_check(said):
    return {"folds": sum(int(line.split()[0]) for line in said if re.fullmatch(r"[0-9]+ folds", line)),
            "passed": sum(line.startswith("ok ") for line in said),
            "failed": [line for line in said if line.startswith("FAILED ")]}


def read_nccl(said):
    jobs = {way: json.loads(text[0]) for way, text in named(said, "cpu", "auto", "nccl").items() if text}
    if "nccl" not in jobs:
        return None
    device = jobs["nccl"]["device"]
    return {"version": device["nccl"]["version"], "reductions": device["nccl"]["reductions"], "devices": device["memory"],
            "run_seconds": {way: job["seconds"]["run"] for way, job in jobs.items()}}


def read_jobs(said):
    return {"passed": sum(line.startswith("ok ") and "# skip" not in line for line in said),
            "skipped": [line.split("# skip", 1)[1].strip() for line in said if "# skip" in line],
            "failed": [line.split(" ", 3)[3] for line in said if line.startswith("not ok ")]}


READS = {"versions": read_versions, "check": read_check, "nccl": read_nccl, "jobs": read_jobs}


def figures(folder, name, said):
    """None: there are none, or not all, as the step was ended while it printed them."""
    try:
        return READS[name](said) if name in READS else read_json(f"{folder}/{name}.result")
    except (LookupError, TypeError, ValueError):
        return None


def collect(folder):
    steps = []
    with open(f"{folder}/steps", encoding="utf8") as f:
        for line in f:
            name, state, code, limit, times, title = line.rstrip("\n").split("\t")
            begun, ended = map(float, times.replace(",", ".").split())
            with open(f"{folder}/{name}.log", encoding="utf8", errors="replace") as log:
                said = log.read().splitlines()
            step = {"name": name, "title": title, "state": state, "exit_code": int(code), "limit": int(limit),
                    "seconds": round(ended - begun, 3), "figures": None}
            if state == "skipped":
                step["why"] = said[-1].split("skipped: ", 1)[-1] if said else "it does not say why"
            elif state != "passed":
                step["last_lines"] = said[-LAST:]
            if state != "skipped" or name == "versions":
                step["figures"] = figures(folder, name, said)
            steps.append(step)
    return {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "steps": steps}


# ---- the page ----

def table(head, rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def number(x):
    return "-" if x is None else f"{x:.3g}"


def versions(f):
    rows = [(name, text) for name in ("collctl", "plug-in", "GPU", "CUDA toolkit", "torch", "system")
            for text in (f[name] if isinstance(f[name], list) else [f[name]])]
    return table(("what", "version"), rows)


def check(f):
    return f"{f['folds']} folds; {f['passed']} checks have passed." + "".join(f"\n- {line}" for line in f["failed"])


def bench(f):
    rows = [(r["what"], number(r["gbs"]), f"{100 * r['gbs'] / r['of']:.0f} %") for r in f["rows"]]
    return f"Buffers of {f['mib']} MiB; compared with {f['baseline']}.\n\n" + table(("what", "GB/s", "of the other"), rows)


def overlap(f):
    parts = [(name, number(s)) for name, s in f["parts"].items()]
    rows = [(r["row"], number(r["job"]), number(r["run"]), number(r["longest"]), number(r["ratio"]), number(r["most"]))
            for r in f["rows"]]
    return (f"{f['mib']} MiB of f32 a rank, {f['ranks']} ranks.\n\n" + table(("part", "seconds"), parts) + "\n\n" +
            table(("row", "job, s", "its run phase, s", "longest part, s", "run over longest", "target"), rows))


def nccl(f):
    rows = [(way, number(s)) for way, s in f["run_seconds"].items()]
    return (f"NCCL {f['version']} on {f['devices']}: {f['reductions']} reductions, the bits are those of the host.\n\n" +
            table(("--device-path", "run phase, s"), rows))


def torch(f):
    rows = [(r["peer"], r["part"], number(r["collctl"]), number(r["torch"]), number(r["collctl"] / r["torch"])) for r in f["rows"]]
    return f"torch {f['version']}, two inputs of {f['mib']} MiB a rank.\n\n" + table(
        ("torch's backend", "what", "collctl, s", "torch, s", "ratio"), rows)


def jobs(f):
    return (f"{f['passed']} tests have passed." + "".join(f"\n- failed: {name}" for name in f["failed"]) +
            "".join(f"\n- skipped: {why}" for why in f["skipped"]))


PAGES = {"versions": versions, "check": check, "bench": bench, "overlap": overlap, "nccl": nccl, "torch": torch, "jobs": jobs}


def page(results):
    lines = ["# First run on a GPU", "", f"{results['time']}. `tests/gpu/first-run.sh` made this page from its results.json.", "",
             table(("step", "state", "seconds"), [(s["title"], s["state"], number(s["seconds"])) for s in results["steps"]])]
    for s in results["steps"]:
        lines += ["", f"## {s['title']}", ""]
        if "why" in s:
            lines.append(f"skipped: {s['why']}")
        if "last_lines" in s:
            lines += [f"{s['state']}, exit code {s['exit_code']}, after {number(s['seconds'])} of {s['limit']} s:", "", "```",
                      *s["last_lines"], "```"]
        if s["figures"] and s["name"] in PAGES:
            lines += ["", PAGES[s["name"]](s["figures"])] if lines[-1] else [PAGES[s["name"]](s["figures"])]
        elif s["state"] == "passed":
            lines.append(f"passed in {number(s['seconds'])} s.")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--page":
        sys.stdout.write(page(read_json(sys.argv[2])))
        return
    folder = sys.argv[1]
    results = collect(folder)
    with open(f"{folder}/results.json", "w", encoding="utf8") as f:
        json.dump(results, f, indent=1)
        f.write("\n")
    with open(f"{folder}/page.md", "w", encoding="utf8") as f:
        f.write(page(results))


if __name__ == "__main__":
    main()
