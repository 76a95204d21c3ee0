#!/usr/bin/env python3
"""Outputs of another element type.

  convert.py same IN FROM OUT TO   is OUT, of type TO, what IN, of type FROM, rounds to?
  convert.py mean OUT TO IN...     is it the average of the bf16 arrays IN, rounded once?
  convert.py floats OUT TO IN      the tensors of the set OUT: floats have type TO, the others are IN's
"""

import sys

import numpy as np

from files import load as load_set
from oracle import load, narrow, widen


def converted(values, to):
    return narrow(np.asarray(values, np.float64), to)


def same(name, of, out, to):
    a, _ = load(name, of)
    b, found = load(out, to)
    assert found == to, f"{out} has {found}, not {to}"
    np.testing.assert_array_equal(b, converted(widen(a, of), to))


def mean(out, to, *names):
    arrays = [widen(load(n)[0], "bf16").astype(np.float64) for n in names]
    b, found = load(out, to)
    assert found == to, f"{out} has {found}, not {to}"
    np.testing.assert_array_equal(b, converted(sum(arrays) / len(arrays), to))


def floats(out, to, name):
    before, after = load_set(name), load_set(out)
    assert sorted(before) == sorted(after), sorted(after)
    for key, a in before.items():
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(after[key], converted(a, to))
        else:
            assert after[key].dtype == a.dtype, key
            np.testing.assert_array_equal(after[key], a)


def main():
    {"same": same, "mean": mean, "floats": floats}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
