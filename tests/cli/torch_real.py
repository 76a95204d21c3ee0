#!/usr/bin/env python3
"""Files that the torch of this machine writes, and what it reads of ours.

  torch_real.py save           one file a kind, and KIND.npz with the values of its tensors
  torch_real.py check KIND OUT.safetensors     has OUT these tensors, bit for bit?
"""

import collections
import json
import sys

import numpy as np
import torch
from torch import nn

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool, torch.complex64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.l1, self.out = nn.Embedding(8, 4), nn.Linear(4, 6), nn.Linear(4, 8, bias=False)
        self.out.weight = self.emb.weight  # tied
        self.register_buffer("steps", torch.arange(5))

    def forward(self, x):
        return self.out(self.l1(self.emb(x))[..., :4]).sum()


def bits(t):
    t = t.detach().contiguous().reshape(-1)
    return np.frombuffer((t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes(), np.uint8)


def tensors_of(value, name=""):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from tensors_of(v, f"{name}.{k}" if name else str(k))
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from tensors_of(v, f"{name}.{i}" if name else str(i))


def kinds():
    torch.manual_seed(1)
    net, base = Net(), torch.arange(24.).reshape(4, 6)
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3)
    net(torch.arange(3)).backward()
    adam.step()
    yield "types", {str(d)[6:]: (torch.rand(3, 5) * 100 - 50).to(d) for d in DTYPES if not d.is_complex} | {
        str(d)[6:]: torch.rand(3, 5).to(d) * (1 + 2j) for d in DTYPES if d.is_complex}
    yield "views", {"base": base, "t": base.t(), "row": base[2], "column": base[:, 1], "steps": base[::2, ::3],
                    "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "expanded": torch.arange(3.).expand(2, 3),
                    "slice": torch.arange(1000)[990:], "channels": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)}
    yield "state_dict", net.state_dict()
    yield "training", {"model": net.state_dict(), "optimizer": adam.state_dict(), "epoch": 3, "rng": torch.get_rng_state(),
                       "args": {"lr": 1e-3, "names": ["a", None, True]}, "set": (1, 2)}
    yield "parameters", collections.OrderedDict(net.named_parameters())
    yield "list", [torch.ones(2), {"x": torch.zeros(3, dtype=torch.bfloat16)}]


def save():
    for name, value in kinds():
        torch.save(value, f"{name}.pt")
        for protocol in (3, 4):
            torch.save(value, f"{name}.{protocol}.pt", pickle_protocol=protocol)
        np.savez(f"{name}.npz", **{k: bits(t) for k, t in tensors_of(value)})


def check(kind, out):
    want = np.load(f"{kind}.npz")
    with open(out, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__")
    assert set(head) == set(want.files), set(head) ^ set(want.files)
    for name, t in head.items():
        begin, end = (8 + n + at for at in t["data_offsets"])
        assert data[begin:end] == want[name].tobytes(), name


def main():
    {"save": save, "check": check}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
