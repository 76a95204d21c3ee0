# info: types, shapes, digests and statistics, with numpy as the oracle.

load helpers

# inputs: arrays and sets of every format in this folder, and want.json: numpy's values for each
# tensor, as [file, name, dtype, shape, count, bytes, nan, inf, min, max, mean].
inputs() {
	"$PYTHON" - <<'PY'
import json, os
import numpy as np
rng = np.random.default_rng(7)
want = []

def safetensors(path, tensors):
    at, header = 0, {"__metadata__": {"format": "pt"}}
    for name, (dtype, a) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, a in tensors.values():
            f.write(a.tobytes())

def expect(file, name, dtype, a, bits=None):
    kept = a if bits is None else bits
    entry = [file, name, dtype, list(a.shape), a.size, kept.nbytes]
    if np.iscomplexobj(a):
        nan = np.isnan(a)
        return want.append([*entry, int(nan.sum()), int((np.isinf(a) & ~nan).sum()), None, None, None])
    wide = a.astype("f8") if a.dtype.kind in "fb" else a.astype(object)
    finite = np.isfinite(a) if a.dtype.kind == "f" else np.ones(a.shape, bool)
    nan = int(np.isnan(a).sum()) if a.dtype.kind == "f" else 0
    inf = int(np.isinf(a).sum()) if a.dtype.kind == "f" else 0
    v = wide[finite].ravel().tolist()
    want.append([*entry, nan, inf, *((min(v), max(v), sum(v) / len(v)) if v else (None,) * 3)])

def special(a):
    a = a.copy()
    a.flat[3], a.flat[7], a.flat[11] = np.nan, np.inf, -np.inf
    return a

a = special(rng.normal(size=(700, 900)).astype("f4"))  # more than two pieces of 1 MiB
np.save("a.npy", a)
expect("a.npy", "", "f32", a)
np.save("big.npy", a.astype(">f4"))
expect("big.npy", "", "f32", a)
np.save("fortran.npy", np.asfortranarray(a))
expect("fortran.npy", "", "f32", a)
for dtype, name in (("i1", "i8"), ("i8", "i64"), ("u2", "u16"), ("?", "bool")):
    x = rng.integers(0, 2, 1001).astype("?") if dtype == "?" else rng.integers(
        np.iinfo(dtype).min, np.iinfo(dtype).max, 1001, dtype=dtype, endpoint=True)
    np.save(f"{name}.npy", x)
    expect(f"{name}.npy", "", name, x)
h = special(rng.normal(size=(3, 5)).astype("f2"))
h.tofile("h.bin")
expect("h.bin", "", "f16", h)
e = np.zeros((0, 4), "f8")
np.save("empty.npy", e)
expect("empty.npy", "", "f64", e)
n = np.full(5, np.nan)
np.save("nan.npy", n)
expect("nan.npy", "", "f64", n)
c = np.array([1 + 2j, complex(np.nan, np.inf), complex(np.inf, 1), 0], "c8")
z = {"weights/w": a[:20], "c": c, "count": np.int64(-3)}
np.savez("z.npz", **z)
for name in z:
    expect("z.npz", name, {"f": "f32", "c": "c64", "i": "i64"}[np.asarray(z[name]).dtype.kind],
           np.asarray(z[name]))

def bf16(x):
    bits = (x.astype("f4").view("u4") >> 16).astype("u2")
    return bits, (bits.astype("u4") << 16).view("f4")

os.mkdir("model")
bits, values = bf16(special(rng.normal(size=(600, 1000))))
small = rng.normal(size=4).astype("f4")
shards = {"model-00001-of-00002.safetensors": {"layer.9.w": ("BF16", bits), "b\nad": ("F32", small)},
          "model-00002-of-00002.safetensors": {"layer.10.w": ("BF16", bits[:7]),
                                               "packed": ("F8_E8M0", np.arange(6, dtype="u1"))}}
for name, tensors in shards.items():
    safetensors(f"model/{name}", tensors)
with open("model/model.safetensors.index.json", "w") as f:
    json.dump({"metadata": {}, "weight_map": {t: s for s in shards for t in shards[s]}}, f)
expect("model", "layer.9.w", "bf16", values, bits)
expect("model", "layer.10.w", "bf16", values[:7], bits[:7])
expect("model", "b\nad", "f32", small)
one = {**shards["model-00002-of-00002.safetensors"], **shards["model-00001-of-00002.safetensors"]}
safetensors("one.safetensors", one)
expect("one.safetensors", "b\nad", "f32", small)
json.dump(want, open("want.json", "w"))
PY
}

@test "what --json says of every format is what numpy has" {
	inputs
	collctl info --json --stats ./*.npy z.npz model one.safetensors >got.json
	collctl info --json --stats --dtype f16 --shape 3,5 h.bin | jq -s . >raw.json
	PYTHONPATH=$HELPERS_DIR run "$PYTHON" -B - <<'PY'
import json, math, os
import numpy as np
from values import encode
def alike(dtype, x, want):  # floats: the same element, in the fewest digits that identify it
    if x is None or dtype[0] not in "fb" or dtype == "bool":
        return x == want
    name = {"f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2"}.get(dtype, dtype.upper())
    return encode(name, np.array([x])) == encode(name, np.array([want])) and len(repr(x)) <= len(repr(want))
got = {os.path.basename(o["file"]): o for f in ("got.json", "raw.json") for o in json.load(open(f))}
want = json.load(open("want.json"))
for file, name, dtype, shape, count, nbytes, nan, inf, lo, hi, mean in want:
    o = got[file]
    assert o["ok"] is True and o["error"] is None and o["command"] == "info", o
    names = [t["name"] for t in o["tensors"]]
    assert names == sorted(names, key=str.encode), names
    assert o["bytes"] == sum(t["bytes"] for t in o["tensors"])
    assert o["count"] == sum(t["count"] for t in o["tensors"])
    t, = (t for t in o["tensors"] if t["name"] == name)
    have = [t[k] for k in ("dtype", "shape", "count", "bytes", "nan", "inf")]
    assert have == [dtype, shape, count, nbytes, nan, inf], (file, name, have)
    assert alike(dtype, t["min"], lo) and alike(dtype, t["max"], hi), (file, name, t["min"], t["max"])
    assert (t["mean"] is None) == (mean is None), (file, t)
    assert mean is None or math.isclose(t["mean"], mean, rel_tol=1e-9, abs_tol=1e-9), (file, t, mean)
    assert t["fortran_order"] == (file == "fortran.npy") and t["big_endian"] == (file == "big.npy")
    if name == "":
        assert (o["dtype"], o["shape"], o["digest"]) == (dtype, shape, t["digest"])
assert got["model"]["format"] == "safetensors" and got["model"]["dtype"] is None
assert got["model"]["files"] == [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
assert "min" not in next(t for t in got["model"]["tensors"] if t["name"] == "packed")
print(len(want), "tensors")
PY
	assert_success
	assert_output "17 tensors"
}

@test "--json: extremes of u64 and i64 exactly, of floats in the digits that their type needs" {
	"$PYTHON" - <<'PY'
import numpy as np
np.savez("x.npz", u8=np.array([2**63 + 1, 2**64 - 1], "u8"), i8=np.array([-(2**63), 2**63 - 1]), f2=np.array([-0.1, 0.3], "f2"),
         f4=np.array([0.1, 3.4028235e38], "f4"), f8=np.array([0.1, 1 / 3]), c=np.array([b"\1u64"], "S4").view("u1"))
PY
	collctl info --stats --json x.npz >got.json
	run "$PYTHON" -c 'import json; print(*(" ".join((t["name"], str(t["min"]), str(t["max"]))) for t in json.load(open("got.json"))["tensors"]), sep="\n")'
	assert_output - <<-'E'
		c 1 117
		f2 -0.1 0.3
		f4 0.1 3.4028235e+38
		f8 0.1 0.3333333333333333
		i8 -9223372036854775808 9223372036854775807
		u8 9223372036854775809 18446744073709551615
	E
}

@test "a digest is that of the values, however they lie in files" {
	inputs
	digest() { collctl info --json "$@" | jq -r .digest; }
	assert_equal "$(digest a.npy)" "$(digest big.npy)"
	assert_not_equal "$(digest a.npy)" "$(digest fortran.npy)" # another order is another file
	assert_equal "$(digest model)" "$(digest one.safetensors)"
	assert_equal "$(digest model)" "$(digest model/model.safetensors.index.json)"
	assert_equal "$(digest a.npy)" "$(digest - --format npy <a.npy)"
	collctl info --json a.npy z.npz >both.json
	"$PYTHON" -c 'import numpy as np; a = np.load("a.npy"); a[699, 899] += 1; np.save("a.npy", a)'
	assert_not_equal "$(digest a.npy)" "$(jq -r '.[0].digest' both.json)"
}

@test "the digest of an array is that which a collective reports" {
	inputs
	collctl allreduce --json --no-sync -n 1 a.npy -o out.npy >result.json
	assert_equal "$(collctl info --json out.npy | jq -r .digest)" "$(json result.json .digest)"
}

@test "text: a summary, then a line a tensor, names escaped" {
	inputs
	run --separate-stderr collctl info --stats a.npy model
	assert_success
	assert_equal "$stderr" ''
	assert_line -n 0 'a.npy: npy, f32 (700, 900), 630000 elements, 2.4 MiB'
	assert_line -n 1 "digest $(collctl info --json a.npy | jq -r .digest)"
	assert_line -n 2 --regexp '^min -[0-9.]+, max [0-9.]+, mean [-0-9.e]+, NaN 1, Inf 2$'
	assert_line -n 3 'model: safetensors, 2 files, 4 tensors of bf16, f32 and f8e8m0, 607010 elements, 1.2 MiB'
	assert_line -n 5 --regexp '^dtype +shape +bytes +digest +min +max +mean +NaN +Inf +name$'
	assert_line -n 6 --regexp '^f32 +\(4,\) +16 +[0-9a-f]{32} .* 0 +0  b\\x0aad$'
	assert_line -n 7 --regexp '^bf16 +\(7, 1000\) +14000 +[0-9a-f]{32} .* 1 +2  layer\.10\.w$'
	assert_line -n 8 --regexp '^bf16 +\(600, 1000\) +1200000 +[0-9a-f]{32} .* 1 +2  layer\.9\.w$'
	assert_line -n 9 --regexp '^f8e8m0 +\(6,\) +6 +[0-9a-f]{32} +- +- +- +- +-  packed$'
	run collctl info a.npy
	assert_equal "${#lines[@]}" 2
}

@test "--include and --exclude choose tensors" {
	inputs
	collctl info --json model --include 'layer.*' --exclude '*.9.*' >one.json
	assert_equal "$(json one.json '[.tensors[].name] | join(" ")')" layer.10.w
	assert_equal "$(json one.json .dtype)" bf16
	run collctl info model --include nothing
	assert_failure 2
	assert_output --partial "model: no tensor matches --include 'nothing': the nearest names: '"
	run collctl info model --exclude 'l*' --include 'layer.*'
	assert_failure 2
	assert_output --partial 'leave none of its 4 tensors'
	run collctl info a.npy --exclude x
	assert_failure 2
}

@test "a file that can't be read doesn't keep the others from being shown" {
	inputs
	run --separate-stderr collctl info none.npy a.npy
	assert_failure 3
	assert_line 'a.npy: npy, f32 (700, 900), 630000 elements, 2.4 MiB'
	assert_equal "$stderr" 'collctl: none.npy: cannot open: No such file or directory'
	echo text >a.txt
	run --separate-stderr collctl info --json none.npy a.npy a.txt
	assert_failure 3
	printf '%s' "$output" >all.json
	assert_equal "$(json all.json 'map(.ok) | tostring')" '[false,true,false]'
	assert_equal "$(json all.json '.[0].error.code, .[1].error, .[2].error.code' | xargs)" '3 null 2'
	run --separate-stderr collctl info --json none.npy
	assert_failure 3
	printf '%s' "$output" >none.json
	assert_equal "$(json none.json '.file, .ok, .error.name' | xargs)" 'none.npy false input'
	truncate -s -4 a.npy
	run collctl info a.npy
	assert_failure 3
}

@test "usage: a file is needed" {
	run collctl info
	assert_failure 2
	run collctl info h.bin
	assert_failure # raw: without --dtype nobody knows
}

@test "--raw-file: the digest of the bytes, which a broadcast of a checkpoint tells" {
	"$PYTHON" - <<'S'
import json, struct
head = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
head += b" " * (-len(head) % 8)
open("x.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + b"12345678")
S
	collctl run --json -n 2 -- broadcast --insecure -q x.safetensors -o 'y.{rank}.safetensors' >told
	collctl info --json --raw-file y.1.safetensors >found
	assert_equal "$(json told ".ranks[0].digest")" "$(json found .digest)"
	run -2 --separate-stderr collctl info --raw-file --include '*' x.safetensors
	[[ $stderr == *"x.safetensors: --include and --exclude with --raw-file choose files of a folder"* ]]
}
