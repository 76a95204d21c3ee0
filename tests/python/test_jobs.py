"""Jobs over files, and their errors."""

import json
import os
import pickle
import signal
import subprocess
import threading

import numpy as np
import pytest
from conftest import COLLECTIVES, PROGRAM, SHARES

import collctl

ALONE = {"rank": 0, "size": 1, "insecure": True}


def test_collectives_over_files_in_one_process_each(ranks):
    ranks(
        3,
        SHARES
        + """
np.save(f"in.{rank}.npy", mine)
source = given = f"in.{rank}.npy"

def run(function, wanted, inputs=given, **settings):
    name = function.__name__
    target = f"{name}.{rank}.npy"
    result = function(inputs, target, job=name, **settings)
    assert (result.rank, result.size) == (rank, size) and result.seconds > 0, result
    assert result.command == name.replace("_", "-") and result.output == target, result
    if wanted is None:
        assert not os.path.exists(target)
    else:
        np.testing.assert_array_equal(np.load(target), wanted)
    return result

assert run(collctl.allreduce, total, algorithm="recursive_doubling").algorithm == "recursive_doubling"
"""
        + COLLECTIVES
        + """both = collctl.allreduce([source, source], f"both.{rank}.npy", op="avg", job="both")
np.testing.assert_array_equal(np.load(both.output), total / size)
assert collctl.barrier(job="barrier").outputs == ()

verified = collctl.verify(f"allgather.{rank}.npy", job="verify")
assert verified.digests == (collctl.info(verified.files[0]).digest,), verified
try:
    collctl.verify(source, job="differ")
    raise AssertionError("verify found no difference")
except collctl.IntegrityError as e:
    assert e.rank == 1 and len(e.result["files"]) == 1, e
check = collctl.check(time="5ms", job="check")
assert check.size == size and len(check.links) == (6 if rank == 0 else 0), check
assert all(link.state == "works" and link.bandwidth > 0 for link in check.links), check
""",
    )


def test_a_result_has_what_the_command_prints(here):
    np.save("a.npy", np.arange(4, dtype="f4"))
    result = collctl.allreduce("a.npy", "b.npy", **ALONE)
    text = subprocess.run(
        [PROGRAM, "allreduce", "--json", "-n", "1", "--insecure", "a.npy", "-o", "c.npy"], stdout=subprocess.PIPE, check=True
    ).stdout
    printed = json.loads(text)
    assert list(result.json) == list(printed)
    same = ("command", "ok", "rank", "size", "op", "dtype", "count", "bytes", "inputs", "digest", "error")
    assert [result.json[k] for k in same] == [printed[k] for k in same]
    assert (result.dtype, result.digest, result.json["output"]) == ("f32", printed["digest"], "b.npy")
    with pytest.raises(collctl.InputError) as caught:
        collctl.allreduce("none.npy", "b.npy", **ALONE)
    error = caught.value.result
    assert not error["ok"] and error["error"]["code"] == 3 and error["error"]["subject"] == "none.npy"


def test_info(here):
    np.save("a.npy", np.array([[1, np.nan], [3, 5]], dtype="f8"))
    info = collctl.info("a.npy", stats=True)
    (tensor,) = info.tensors
    assert (info.format, info.dtype, info.shape, info.count, info.bytes) == ("npy", "f64", (2, 2), 4, 32)
    assert (tensor.min, tensor.max, tensor.mean, tensor.nan, tensor.inf) == (1, 5, 3, 1, 0)
    assert info.json["files"] == ["a.npy"]
    assert collctl.info(here / "a.npy", digest=False).digest is None


@pytest.mark.parametrize(
    "error, subject, call",
    [
        (collctl.UsageError, "op", lambda: collctl.allreduce("a.npy", "b.npy", op="sun", **ALONE)),
        (collctl.UsageError, "colour", lambda: collctl.barrier(colour="red", **ALONE)),
        (collctl.UsageError, None, lambda: collctl.allreduce("a\0.npy", "b.npy", **ALONE)),
        (collctl.UsageError, None, lambda: collctl.info(["a.npy"])),
        (collctl.InputError, "none.npy", lambda: collctl.allreduce("none.npy", "b.npy", **ALONE)),
        (collctl.InputError, "none.npy", lambda: collctl.info("none.npy")),
        (collctl.OutputError, "no/b.npy", lambda: collctl.allreduce("a.npy", "no/b.npy", **ALONE)),
    ],
)
def test_errors(here, error, subject, call):
    np.save("a.npy", np.zeros(3))
    with pytest.raises(error) as raised:
        call()
    e = raised.value
    assert (e.subject, e.code) == (subject, error.code) and e.message, e
    copy = pickle.loads(pickle.dumps(e))
    assert (type(copy), str(copy), copy.subject, copy.rank) == (error, str(e), subject, e.rank)


def test_an_error_names_the_rank(ranks):
    ranks(
        2,
        """
rank = int(os.environ["COLLCTL_RANK"])
np.save(f"in.{rank}.npy", np.zeros(3 + rank))
try:
    collctl.allreduce(f"in.{rank}.npy", f"out.{rank}.npy")
except collctl.DisagreeError as e:
    assert e.rank in (0, 1) and e.subject == f"in.{e.rank}.npy" and str(e) == f"rank {e.rank}: {e.message}", e
else:
    raise AssertionError("the shapes differ")
assert not os.path.exists(f"out.{rank}.npy")
""",
    )


def test_settings_have_the_types_of_python(here):
    np.savez("a.npz", w=np.ones(3, "f4"), b=np.ones(2, "f4"), c=np.ones(1, "f4"))
    collctl.allreduce(
        [here / "a.npz"] * 2,
        here / "b.npz",
        op="avg",
        weight=[1.0, 3],
        include=["w", "b"],
        exclude="b",
        memory=1 << 20,
        dry_run=False,
        tuning=None,
        no_sync=True,
        **ALONE
    )
    with np.load("b.npz") as b:
        assert b.files == ["w"]


def test_the_environment(here, monkeypatch):
    monkeypatch.setenv("COLLCTL_RANK", "0")
    monkeypatch.setenv("COLLCTL_SIZE", "1")
    assert collctl.barrier().size == 1
    with pytest.raises(collctl.UsageError):
        collctl.barrier(environment=False)


def nobody(store):
    """Settings of a rank that waits for another, which does not come."""
    return {"rank": 0, "size": 2, "rendezvous": store, "insecure": True}


def test_keyboard_interrupt_cancels(store):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        collctl.barrier(**nobody(store))
    timer.join()
    assert [t.name for t in threading.enumerate() if t.name == "collctl"] == []
    assert collctl.barrier(**ALONE).size == 1


def test_an_exception_of_a_callback_cancels():
    def stop(note):
        notes.append(note)
        raise LookupError(note.text)

    notes = []
    with pytest.raises(LookupError, match="127.0.0.1:1"):
        collctl.barrier(notes=stop, **nobody("http://127.0.0.1:1"))
    assert notes[0].level == 0 and len(notes) == 1


def test_progress():
    seen = []
    collctl.broadcast(np.ones(1 << 16), progress=seen.append, **ALONE)
    assert (seen[0].phase, seen[-1].phase) == ("join", "commit") and seen[-1].done == seen[-1].total > 0, seen
    assert [p.done for p in seen] == sorted(p.done for p in seen)

    def stop(progress):
        raise LookupError(progress.phase)

    with pytest.raises(LookupError, match="join"):
        collctl.barrier(progress=stop, **ALONE)


def test_notes_go_to_the_logger(caplog, here):
    caplog.set_level("DEBUG", logger="collctl")
    np.save("a.npy", np.zeros(3, "f4"))
    collctl.allreduce("a.npy", "b.npy", limit_rate="1G", explain=True, **ALONE)
    assert {r.name for r in caplog.records} == {"collctl"}, caplog.text


def test_check_that_fails(here):
    with pytest.raises(collctl.RendezvousError) as raised:
        collctl.check(join_timeout="50ms", **nobody("http://127.0.0.1:1"))
    assert raised.value.result is None
