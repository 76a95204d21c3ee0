#!/usr/bin/env python3
"""Merges by mergekit, of small models with the layout of Llama. For mergekit.bats; needs torch, safetensors and mergekit.

  mergekit_oracle.py make DTYPE N      base, x.0 ... x.N-1: folders with models of two layers (float32, bfloat16, float16)
  mergekit_oracle.py parallel          two tensors of x.1 become nearly parallel to those of x.0, in either direction
  mergekit_oracle.py check CASE...     a case is OUT=METHOD:JSON: the whole program makes the folder OUT.mergekit by METHOD of base and all x
                                       with these parameters ("weights": a list, one number for each x); is the folder OUT the same?
  mergekit_oracle.py ties PART N       is the folder ties what mergekit makes of N models if it keeps as many elements as collctl?
  mergekit_oracle.py dare PART N COUNT are the folders dare.1 ... dare.COUNT on average what mergekit's dare makes on average?

What rounding may do. Let u be 2^-24. Both take differences in f32, with the same bits, of models in f32. mergekit then multiplies by
weights, adds n contributions, divides, and multiplies by lambda in f32: at most n + 3 roundings, each off by at most u times the sum of all
magnitudes that were added. collctl does this in f64. At last both add the origin and round to the type of the output, mergekit first
to f32: half a unit in the last place each. So they differ by at most one unit of the output's type, and (n + 4) u times these magnitudes.
slerp: mergekit's norms and dot product, in f32, have an error of some u, as has the angle divided by its sine, 0.03 at least, beyond which
both take the line; the coefficients change less than in proportion to it. 64 u times the magnitudes of both inputs cover this.
"""

import json
import math
import os
import sys

import torch
from safetensors.torch import load_file, save_file

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 40,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
SHAPES = {"model.embed_tokens": (64, 16), "model.norm": (16,), "lm_head": (64, 16)}
for layer in range(2):
    SHAPES.update({f"model.layers.{layer}.{name}": shape for name, shape in {
        "self_attn.q_proj": (16, 16), "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16), "self_attn.o_proj": (16, 16),
        "mlp.gate_proj": (40, 16), "mlp.up_proj": (40, 16), "mlp.down_proj": (16, 40), "input_layernorm": (16,),
        "post_attention_layernorm": (16,)}.items()})
U = 2.0**-24


def load(path):
    return load_file(path if path.endswith(".safetensors") else f"{path}/model.safetensors")


def models():
    names = sorted(name for name in os.listdir() if name.startswith("x.") and os.path.isdir(name))
    return load("base"), [load(name) for name in names]


def make(dtype, n):
    torch.manual_seed(5)
    base = {f"{name}.weight": torch.randn(shape) for name, shape in SHAPES.items()}
    tasks = [{name: t + torch.randn(t.shape) / 8 for name, t in base.items()} for _ in range(int(n))]
    for name, tensors in ("base", base), *((f"x.{i}", task) for i, task in enumerate(tasks)):
        os.makedirs(name)
        save_file({k: t.to(getattr(torch, dtype)) for k, t in tensors.items()}, f"{name}/model.safetensors", {"format": "pt"})
        with open(f"{name}/config.json", "w", encoding="utf8") as f:
            json.dump({**CONFIG, "dtype": dtype}, f)


def parallel():
    """x.1 gets a tensor that is nearly parallel to that of x.0, and one that is nearly opposite."""
    _, (first, second) = models()
    for name, factor in ("lm_head.weight", 1.5), ("model.embed_tokens.weight", -1.5):
        second[name] = (factor * first[name].float() + torch.randn(first[name].shape) / 256).to(first[name].dtype)
    save_file(second, "x.1/model.safetensors", {"format": "pt"})


def merge(case):
    """The folder that mergekit writes. It computes in f32, which is not what it does by itself with narrower models."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions
    out, _, rest = case.partition("=")
    method, _, parameters = rest.partition(":")
    parameters = json.loads(parameters or "{}")
    base, tasks = models()
    weights = parameters.pop("weights", [1.0] * len(tasks))
    density = parameters.pop("density", None)
    inputs = [{"model": f"./x.{i}", "parameters": {"weight": w, **({} if density is None else {"density": density})}}
              for i, w in enumerate(weights)]
    config = {"merge_method": method, "models": inputs, "parameters": parameters, "dtype": "float32",
              "out_dtype": str(base["lm_head.weight"].dtype)[6:]}
    if method == "slerp":  # of two models, and the first is its base
        config.update(models=[{"model": "./x.0"}, {"model": "./x.1"}], base_model="./x.0")
    elif method != "linear":
        config["base_model"] = "./base"
    run_merge(MergeConfiguration.model_validate(config), f"{out}.mergekit",
              MergeOptions(copy_tokenizer=False, allow_crimes=True, random_seed=1, quiet=True))
    return out, method, weights, parameters


def spacing(t, dtype):
    """The distance of values of @dtype to the next one."""
    info = torch.finfo(dtype)
    return torch.maximum(2.0 ** torch.floor(torch.log2(t.double().abs().clamp(min=info.tiny))) * info.eps, torch.tensor(info.smallest_normal * info.eps).double())


def bounds(name, base, tasks, method, weights, parameters):
    if method == "slerp":
        return 64 * U * (tasks[0][name].double().abs() + tasks[1][name].double().abs())
    o = base[name].double()
    parts = torch.stack([w * (x[name].double() - (0 if method == "linear" else o)).abs() for w, x in zip(weights, tasks)]).sum(0)
    if method != "task_arithmetic" or parameters.get("normalize"):
        parts /= 1 if method == "ties" else sum(weights)
    return (len(tasks) + 4) * U * parts * abs(parameters.get("lambda", 1.0))


def check(*cases):
    base, tasks = models()
    for case in cases:
        out, method, weights, parameters = merge(case)
        ours, theirs = load(out), load(f"{out}.mergekit")
        assert set(ours) == set(theirs) == set(base), set(ours) ^ set(theirs)
        for name, t in theirs.items():
            assert ours[name].dtype == t.dtype == base[name].dtype, name
            bound = spacing(t, t.dtype) + bounds(name, base, tasks, method, weights, parameters)
            off = (ours[name].double() - t.double()).abs()
            assert (off <= bound).all(), (case, name, (off / bound).max())


def ties(part, n):
    """mergekit keeps the floor of PART * count elements, at least 1, and of equal ones any; collctl the ceiling, and all equal ones. So
    the results are the same if mergekit's part is enlarged; and else differ where one more element counts in an input."""
    from mergekit.merge_methods import merge_tensors
    base, tasks = models()
    ours, differing = load("ties"), 0
    assert len(tasks) == int(n)
    for name, o in base.items():
        kept = math.ceil(round(float(part) * o.numel(), 6))
        for x in tasks:
            ordered = (x[name] - o).abs().reshape(-1).sort().values
            assert ordered[-kept] > ordered[-kept - 1], name  # of the models that were drawn none has equal ones there
        for density, most in ((kept + 0.5) / o.numel(), 0), (float(part), len(tasks)):
            theirs = merge_tensors([o, *(x[name] for x in tasks)], "ties", base_index=0, parameters={"weight": 1.0, "density": density})
            bound = spacing(theirs, o.dtype) + bounds(name, base, tasks, "ties", [1.0] * len(tasks), {})
            off = ((ours[name].double() - theirs.double()).abs() > bound).sum()
            assert off <= most, (name, density, off)
            differing += off
    assert differing  # else this part would not show the difference


def dare(part, n, count):
    """Both drop with the same probability, but draw other numbers. mergekit's `rescale` makes the sum of all magnitudes what it was before;
    DARE's paper, and collctl, divide by PART: as mergekit without it, by a lambda of 1 / PART. Of COUNT results the mean must be within 6
    standard deviations of origin + mean difference, for collctl and mergekit alike."""
    from mergekit.merge_methods import merge_tensors
    part, n, count = float(part), int(n), int(count)
    base, tasks = models()
    torch.manual_seed(7)
    runs = [load(f"dare.{i}") for i in range(1, count + 1)]
    for name, o in base.items():
        d = torch.stack([(x[name] - o).double() for x in tasks])
        want = o.double() + d.mean(0)
        sigma = ((1 - part) / part * d.square().sum(0) / count).sqrt() / n
        ours = torch.stack([run[name].double() for run in runs]).mean(0)
        theirs = torch.stack([merge_tensors([o, *(x[name] for x in tasks)], "dare_linear", base_index=0, parameters={
            "weight": 1.0, "density": part, "lambda": 1 / part, "normalize": True, "rescale": False}).double() for _ in runs]).mean(0)
        rounding = spacing(want, o.dtype) + 8 * U * d.abs().sum(0) / part
        assert ((ours - want).abs() <= 6 * sigma + rounding).all(), name
        assert ((theirs - want).abs() <= 6 * sigma + rounding).all(), name
        spread = torch.stack([run[name].double() for run in runs]).var(0).mean() / (sigma.square().mean() * count)
        assert 0.8 < spread < 1.25, (name, spread)


def main():
    {"make": make, "parallel": parallel, "check": check, "ties": ties, "dare": dare}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
