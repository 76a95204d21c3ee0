"""Check a Chrome trace against the JSON results of its ranks: trace.py TRACE RANKS RESULTS"""
import collections
import json
import re
import sys


def fail(*what):
    sys.exit("trace: " + " ".join(map(str, what)))


def check(cond, *what):
    if not cond:
        fail(*what)


trace = json.load(open(sys.argv[1]))
size = int(sys.argv[2])
results = {r["rank"]: r for r in map(json.loads, open(sys.argv[3]))}
events = trace["traceEvents"]
check(set(trace) == {"displayTimeUnit", "traceEvents", "otherData"}, set(trace))
other = trace["otherData"]
check(other["ranks"] == size == len(other["clock_error_us"]) == len(results), other)
check(other["events_not_kept"] == 0, other)
check({r["algorithm"] or "" for r in results.values()} == {other["algorithm"]}, other)
check({r["command"] for r in results.values()} == {other["command"]}, other)

names, threads = {}, {}
for e in events:
    if e["ph"] == "M" and e["name"] == "process_name":
        names[e["pid"]] = e["args"]["name"]
    elif e["ph"] == "M" and e["name"] == "thread_name":
        check(threads.setdefault((e["pid"], e["tid"]), e["args"]["name"]) == e["args"]["name"], e)
check(sorted(names) == list(range(size)), names)
check(all(n.startswith("rank %d" % r) for r, n in names.items()), names)

# What each event may be called: a rank that a name has is the event's peer.
NAMES = re.compile(
    r"join|connect|run|complete the output|window|copy|add|read|write|wait for (an input|the output|a device)"
    r"|(?:send to|receive from) rank (?P<a>\d+)(?: and add)?|wait for data of rank (?P<b>\d+)"
    r"|wait until rank (?P<c>\d+) takes data"
)

slices = [e for e in events if e["ph"] == "X"]
by_thread = collections.defaultdict(list)
for e in slices:
    check(e["ts"] >= 0 and e["dur"] >= 0, e)
    check((e["pid"], e["tid"]) in threads, "no name for the thread of", e)
    by_thread[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    check(e["args"].get("peer", 0) in range(size) and e["args"].get("peer") != e["pid"], e)
    named = NAMES.fullmatch(e["name"])
    check(named, "no such name:", e)
    of = [int(x) for x in named.group("a", "b", "c") if x]
    check(of == [e["args"]["peer"]] if of else "peer" not in e["args"], e)
for where, spans in by_thread.items():
    spans.sort()
    for a, b in zip(spans, spans[1:]):
        check(b[0] >= a[1] - 0.002, "events overlap on", where, threads[where], a, b)

sent, received, read, wrote, windows = (collections.Counter() for _ in range(5))
for e in slices:
    name, rank, n = e["name"], e["pid"], e["args"].get("bytes", 0)
    if name.startswith("send to"):
        sent[rank] += n
    elif name.startswith("receive from"):
        received[rank] += n
    elif name == "read":
        read[rank] += n
    elif name == "write":
        wrote[rank] += n
    elif name == "window":
        windows[rank] += 1
for r, result in results.items():
    stages = [e["name"] for e in slices if e["pid"] == r and e["tid"] == 1]
    check(sorted(stages) == ["complete the output", "connect", "join", "run"], r, stages)
    check(sent[r] == result["bytes_sent"], r, "sent", sent[r], result["bytes_sent"])
    check(received[r] == result["bytes_received"], r, "received", received[r], result["bytes_received"])
    check(windows[r] == result["windows"], r, "windows", windows[r], result["windows"])

starts = {e["id"]: e for e in events if e["ph"] == "s"}
ends = {e["id"]: e for e in events if e["ph"] == "f"}
check(len(starts) == sum(e["name"].startswith("send to") for e in slices), "a send has no arrow")
check(set(starts) == set(ends), "arrows with one end:", sorted(set(starts) ^ set(ends))[:5])
error = 2 * max(other["clock_error_us"]) + 1
for k, s in starts.items():
    f = ends[k]
    sender, receiver = k.split("-")[:2]
    check((str(s["pid"]), str(f["pid"])) == (sender, receiver), k, s, f)
    check(f["ts"] >= s["ts"] - error, "an arrow goes back in time:", s, f)
    for e in (s, f):
        check(any(a - 0.002 <= e["ts"] <= b + 0.002 for a, b in by_thread[e["pid"], e["tid"]]), "an arrow ends nowhere", e)
