#!/usr/bin/env python3
"""Train a small model of bytes on text, and write checkpoints of its weights: elements in bf16, or in f32, without a head.

    train.py --out FOLDER [--steps 300] [--rates 3e-4,3e-6] [--dtype bf16|f32] [FILE...]

FOLDER/old has the weights after --steps steps by the first rate, FOLDER/RATE those after one more step by this rate, for each
of --rates. The model reads 8 bytes and predicts the next one: an embedding, two hidden layers, Adam; 1.7 million weights.
The text is that of the files, or of the documents of this repository. The same seed draws the same batches.
"""

import argparse
import copy
import glob
import os

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONTEXT, EMBEDDING, HIDDEN, BATCH = 8, 64, 1024, 128


def read(files):
    data = b"".join(open(f, "rb").read() for f in files)
    return np.minimum(np.frombuffer(data, np.uint8), 127)


class Model:
    def __init__(self, rng):
        def drawn(*shape):
            return (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)

        self.weights = [drawn(128, EMBEDDING), drawn(CONTEXT * EMBEDDING, HIDDEN), np.zeros(HIDDEN, np.float32),
                        drawn(HIDDEN, HIDDEN), np.zeros(HIDDEN, np.float32), drawn(HIDDEN, 128)]
        self.means = [np.zeros_like(w) for w in self.weights]
        self.squares = [np.zeros_like(w) for w in self.weights]
        self.steps = 0

    def gradients(self, x, y):
        """Of the mean loss, and the loss."""
        embedding, w1, b1, w2, b2, w3 = self.weights
        a0 = embedding[x].reshape(len(x), -1)
        a1 = np.maximum(a0 @ w1 + b1, 0)
        a2 = np.maximum(a1 @ w2 + b2, 0)
        logits = a2 @ w3
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(1, keepdims=True)
        loss = -np.log(p[np.arange(len(y)), y] + 1e-30).mean()
        p[np.arange(len(y)), y] -= 1
        d3 = p / np.float32(len(y))
        d2 = (d3 @ w3.T) * (a2 > 0)
        d1 = (d2 @ w2.T) * (a1 > 0)
        d0 = np.zeros_like(embedding)
        np.add.at(d0, x, (d1 @ w1.T).reshape(len(x), CONTEXT, EMBEDDING))
        return [d0, a0.T @ d1, d1.sum(0), a1.T @ d2, d2.sum(0), a2.T @ d3], loss

    def step(self, x, y, rate):
        """Kingma, Ba, "Adam: a method for stochastic optimization"."""
        gradients, loss = self.gradients(x, y)
        self.steps += 1
        one, two = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        for w, g, m, v in zip(self.weights, gradients, self.means, self.squares):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            w -= rate * (m / one) / (np.sqrt(v / two) + 1e-8)
        return loss

    def save(self, path, dtype):
        w = np.concatenate([w.ravel() for w in self.weights])
        if dtype == "bf16":  # rounded to the nearest, ties to even
            bits = w.view(np.uint32)
            w = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        w.tofile(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--rates", default="3e-4,3e-6")
    p.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    p.add_argument("files", nargs="*")
    a = p.parse_args()
    text = read(a.files or sorted(glob.glob(f"{ROOT}/docs/*.md")))
    rng = np.random.default_rng(1)
    model, losses, rates = Model(rng), [], a.rates.split(",")

    def step(of, rate):
        at = rng.integers(0, len(text) - CONTEXT, BATCH)
        return of.step(text[at[:, None] + np.arange(CONTEXT)], text[at + CONTEXT], np.float32(rate))

    for _ in range(a.steps):
        losses.append(step(model, rates[0]))
    model.save(f"{a.out}/old", a.dtype)
    for rate in rates:
        next_one = copy.deepcopy(model)
        step(next_one, rate)
        next_one.save(f"{a.out}/{rate}", a.dtype)
    size = sum(w.size for w in model.weights)
    print(f"a model of {size} weights in {a.dtype}, {a.steps} steps: loss {losses[0]:.2f}, then {np.mean(losses[-20:]):.2f}")


if __name__ == "__main__":
    main()
