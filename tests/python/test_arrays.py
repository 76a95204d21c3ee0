"""Arrays in memory."""

import array
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import COLLECTIVES, SHARES

import collctl

ALONE = {"rank": 0, "size": 1, "insecure": True}


def test_collectives_of_arrays(ranks):
    ranks(
        3,
        SHARES
        + """
given = mine

def run(function, wanted, inputs=given, **settings):
    result = function(inputs, job=function.__name__, **settings)
    if wanted is None:
        assert result.output is None and result.outputs == ()
    else:
        assert result.output.dtype == wanted.dtype
        np.testing.assert_array_equal(result.output, wanted)
    return result

run(collctl.allreduce, total)
"""
        + COLLECTIVES
        + """
# Into the same memory; what was there stays after a failure.
inside = np.array(mine)
result = collctl.allreduce(inside, inside, op="max", job="inside")
assert result.output is inside
np.testing.assert_array_equal(inside, of_all[-1])
for target in np.zeros_like(mine), np.array(mine): # written while the job runs, and over an input
    given = target if target.any() else mine
    collctl.allreduce(given, target, in_place=True, job="in-place")
    np.testing.assert_array_equal(target, total)
np.testing.assert_array_equal(mine, of_all[rank])
short = np.ones(24 - (rank == 1), "f4")
try:
    collctl.allreduce(mine, short, job="short")
    raise AssertionError("the result does not fit")
except collctl.OutputError as e:
    assert e.rank == 1 and "92 bytes" in e.message and "96" in e.message, e
assert (short == 1).all()
try:
    collctl.allreduce(mine[:5 + (rank != 2)], job="shapes")
    raise AssertionError("the shapes differ")
except collctl.DisagreeError as e:
    assert e.rank == 2 and e.subject == "the array" and "/proc" not in e.message, e

# From an array to a file, and back.
collctl.allreduce(mine, f"sum.{rank}.npy", job="file")
both = collctl.allreduce([f"sum.{rank}.npy", mine], op="avg", job="both").output
np.testing.assert_allclose(both, (size * total + total) / (2 * size))
""",
    )


@pytest.mark.parametrize("dtype", "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 ? c8 c16".split())
def test_types(dtype):
    given = np.array([[0, 1], [1, 1]]).astype(dtype)
    out = collctl.broadcast(given, **ALONE).output
    assert out.dtype == given.dtype and (out == given).all()
    out[0] = 1  # the array is the caller's


def test_an_output_of_another_type():
    out = np.zeros(2, "i4")
    with pytest.raises(collctl.OutputError, match="elements of i32, but the result has f32"):
        collctl.allreduce(np.ones(2, "f4"), out, **ALONE)
    assert (out == 0).all()


def test_types_without_a_name_in_python():
    given = np.array([0x3F80, 0x4000], "u2")  # 1 and 2
    assert (collctl.allreduce(np.array([1, 2], "f4"), output_dtype="bf16", **ALONE).output == given).all()
    out = np.zeros(2, "u2")
    collctl.allreduce(given, out, dtype="bf16", **ALONE)
    assert (out == given).all()
    assert (collctl.allreduce([given, given], op="sum", dtype="bf16", **ALONE).output == [0x4000, 0x4080]).all()


def test_what_has_the_buffer_protocol(here):
    backing = bytearray(8)
    with pytest.raises(collctl.UsageError, match="2 bytes, the elements"):
        collctl.allreduce(b"abcd", dtype="bf16", **ALONE)
    assert bytes(collctl.broadcast(b"abc", **ALONE).output) == b"abc"
    assert (
        collctl.broadcast(array.array("d", [1, 2]), backing[:0] or bytearray(16), **ALONE).output[:8]
        == b"\0" * 6 + b"\xf0?"
    )
    target = memoryview(backing)[:4]
    collctl.broadcast(b"wxyz", target, **ALONE)
    assert backing == b"wxyz\0\0\0\0"
    strided = np.arange(12.0).reshape(3, 4)[:, ::2]
    assert (collctl.broadcast(strided, **ALONE).output == strided).all()
    assert collctl.broadcast(np.float32(3), **ALONE).output.shape == ()
    assert collctl.broadcast(np.zeros((0, 3)), **ALONE).output.shape == (0, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: collctl.allreduce(3.5, **ALONE),
        lambda a: collctl.allreduce([1.0, 2.0], **ALONE),
        lambda a: collctl.allreduce(a, b"12345678", **ALONE),
        lambda a: collctl.allreduce(a, np.zeros(4)[::2], **ALONE),
        lambda a: collctl.allreduce(a.astype(">f8"), **ALONE),
        lambda a: collctl.allreduce(a.astype("M8[s]"), **ALONE),
        lambda a: collctl.allreduce(a, [a, a.copy()], **ALONE),
        lambda a: collctl.allreduce([a, "b.raw"], format="raw", **ALONE),
        lambda a: collctl.allreduce(["x.safetensors"], **ALONE),
    ],
)
def test_mistakes(here, call):
    with pytest.raises(collctl.UsageError):
        call(np.zeros(2))


def test_descriptors_and_memory_are_returned():
    big = np.ones(1 << 18)
    collctl.allreduce(big, **ALONE)
    before = len(os.listdir("/proc/self/fd"))
    kept = [collctl.allreduce(big, **ALONE).output for _ in range(3)]
    assert all((k == 1).all() for k in kept)
    del kept
    with pytest.raises(collctl.UsageError):
        collctl.allreduce(big, op="sun", **ALONE)
    assert len(os.listdir("/proc/self/fd")) == before
    assert "collctl-array" not in open("/proc/self/maps").read()


def test_without_numpy():
    text = """
import sys
sys.modules["numpy"] = None
import array, collctl
alone = {"rank": 0, "size": 1, "insecure": True}
out = collctl.allreduce([array.array("f", [1, 2, 3])] * 2, **alone).output
assert isinstance(out, memoryview) and out.tolist() == [2, 4, 6] and out.format == "f"
pairs = memoryview(bytes(16)).cast("d")
assert collctl.broadcast(array.array("H", [15360]), dtype="f16", **alone).output.tolist() == [15360]
assert collctl.broadcast(array.array("h", []), **alone).output.tolist() == []
"""
    subprocess.run([sys.executable, "-c", text], check=True)
