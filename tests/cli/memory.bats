#!/usr/bin/env bats
# Every collective processes files larger than --memory: no rank's peak exceeds the sum of --memory
# and the program itself, for any file size.

load helpers

if ((LONG)); then
	SIZE=300 MEMORY=32 # MiB
else
	SIZE=96 MEMORY=8
fi
LIMIT=$((MEMORY + 24))
export BATS_TEST_TIMEOUT=$((LONG ? 1200 : BATS_TEST_TIMEOUT))

setup() {
	common_setup
	no_sanitizers 'take memory of their own'
	((SIZE > LIMIT))
}

# peak COMMAND...: three ranks; none may use more than LIMIT
peak() {
	PEAKS=$PWD/peaks collctl run -n 3 -- "$PYTHON" "$HELPERS_DIR/peak.py" "$LIMIT" "$COLLCTL" "$@" \
		--insecure --no-sync --memory ${MEMORY}M --timeout 120s 2>err || fail "$*: $(<err)"
}

# Shards whose rows each have one value, which depends on the row and the rank.
make_big() {
	"$PYTHON" - "$SIZE" <<-'E'
		import sys
		import numpy as np
		rows = int(sys.argv[1])  # of a MiB
		for r in range(3):
		    a = np.lib.format.open_memmap(f"in.{r}.npy", mode="w+", dtype="f4", shape=(rows, 1 << 18))
		    for i in range(rows):
		        a[i] = (i * 7 + r) % 97
	E
}

# each_row OUT EXPRESSION: row i of OUT has the value of the expression, which knows i, P, rows and v(i, r)
each_row() {
	"$PYTHON" - "$SIZE" "$@" <<-'E'
		import sys
		import numpy as np
		rows, path, want = int(sys.argv[1]), sys.argv[2], sys.argv[3]
		v = lambda i, r: (i * 7 + r) % 97
		out = np.load(path, mmap_mode="r")
		assert len(out) == eval(want.partition("#")[2] or "rows"), out.shape
		for i in range(0, len(out), 5):
		    row = out[i]
		    assert row.min() == row.max() == eval(want), f"{path}: row {i}: {row.min()} to {row.max()}"
	E
}

@test "memory is bounded: arrays, every collective" {
	make_big
	peak allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.2.npy 'v(i, 0) + v(i, 1) + v(i, 2)'
	peak allreduce --order rank --op avg 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.1.npy 'np.float32((v(i, 0) + v(i, 1) + v(i, 2)) / 3)'
	peak reduce --lanes tcp --wire lossless 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.0.npy 'v(i, 0) + v(i, 1) + v(i, 2)'
	peak reduce-scatter 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.1.npy 'sum(v(i + rows // 3, r) for r in range(3)) # rows // 3'
	peak broadcast --root 1 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.2.npy 'v(i, 1)'
	peak scatter 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.2.npy 'v(i + rows // 3 * 2, 0) # rows // 3'
	peak alltoall 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.1.npy 'v(rows // 3 + i % (rows // 3), i // (rows // 3))'
	peak scan 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.1.npy 'v(i, 0) + v(i, 1)'
	peak exscan 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.2.npy 'v(i, 0) + v(i, 1)'
	rm out.*
	peak gather 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.0.npy 'v(i % rows, i // rows) # 3 * rows'
	rm out.*
	peak allgather 'in.{rank}.npy' -o 'out.{rank}.npy'
	each_row out.2.npy 'v(i % rows, i // rows) # 3 * rows'
}

@test "memory is bounded: sets, --each, integers, weights, Fortran's order, archives, pipes" {
	PYTHONPATH=$HELPERS_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" - "$SIZE" <<-'E'
		import sys
		from files import *
		n = int(sys.argv[1]) << 16  # a quarter of the elements, of 4 bytes
		for r in range(3):
		    a = (np.arange(n, dtype="i4") + r) % 1000
		    t = {"w": a.astype("f4"), "h": np.resize(a, 2 * n).astype("f2"), "i": np.concatenate([a] * 1)}
		    save_set(f"ck.{r}", {"1.safetensors": {"w": t["w"]}, "2.safetensors": {"h": t["h"], "i": t["i"]}})
		    np.savez(f"in.{r}.npz", **t)
		    np.save(f"w.{r}.npy", t["w"])
		    np.save(f"f.{r}.npy", np.asfortranarray(np.resize(t["w"], (3 * n // 768, 1024)).T))
	E
	peak allreduce 'ck.{rank}' -o 'out.{rank}'
	peak allreduce --op avg --weight 3 --integers round --order rank 'ck.{rank}' -o 'avg.{rank}'
	peak reduce 'ck.{rank}' -o 'red.{rank}'
	peak broadcast 'ck.{rank}' -o 'cast.{rank}'
	peak allreduce --each 'ck.{rank}' 'w.{rank}.npy' -o 'each.{rank}'
	PYTHONPATH=$HELPERS_DIR PYTHONDONTWRITEBYTECODE=1 "$PYTHON" <<-'E'
		from files import *
		ins = [load(f"ck.{r}") for r in range(3)]
		total = {n: ins[0][n] + ins[1][n] + ins[2][n] for n in ins[0]}
		mean = {n: np.rint(total[n] / 3) if n == "i" else total[n].astype("f8") / 3 for n in total}
		check("out.2", total)
		check("each.1/ck.1", total)
		check("red.0", total)
		check("avg.1", {n: mean[n].astype(a.dtype) for n, a in total.items() if n != "h"} | {"h": (sum(x["h"].astype("f8") for x in ins) / 3).astype("f2")})
		check("cast.2", ins[0])
	E
	rm -rf out.* avg.* cast.* each.* red.*
	peak allreduce 'in.{rank}.npz' -o 'out.{rank}.npz'
	peak broadcast 'in.{rank}.npz' -o 'cast.{rank}.npz'
	cmp in.0.npz cast.2.npz
	rm -f ./*.npz
	peak alltoall 'f.{rank}.npy' -o 'all.{rank}.npy'
	peak reduce-scatter 'f.{rank}.npy' -o 'rs.{rank}.npy'
	"$PYTHON" - <<-'E'
		import numpy as np
		f = [np.load(f"f.{r}.npy") for r in range(3)]
		parts = [np.array_split(x, 3)[1] for x in f]
		assert (np.load("rs.1.npy") == sum(parts)).all()
		assert (np.load("all.1.npy") == np.concatenate(parts)).all()
	E
	# shellcheck disable=SC2016
	peak_pipe='"$@" - -o - <"w.$COLLCTL_RANK.npy" | cat >"out.$COLLCTL_RANK.npy"'
	PEAKS=$PWD/peaks collctl run -n 3 -- bash -o pipefail -c "$peak_pipe" - "$PYTHON" "$HELPERS_DIR/peak.py" "$LIMIT" "$COLLCTL" \
		allreduce --format npy --insecure --memory ${MEMORY}M 2>err || fail "$(<err)"
	cmp out.0.npy out.2.npy
	"$PYTHON" -c 'import numpy as np; assert (np.load("out.0.npy") == sum(np.load(f"w.{r}.npy") for r in range(3))).all()'
}
