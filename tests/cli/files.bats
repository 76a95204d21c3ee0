#!/usr/bin/env bats
# Kinds of files: .npz, Fortran order, big-endian, pipes; several files with --each; --stats and
# --progress. numpy is the oracle.

# shellcheck disable=SC2016
load helpers

# ---- .npz ----

make_archives() {
	py <<-'E'
		for r in range(3):
		    t = {d: some(d, (5, 3), [r, i]) for i, d in enumerate(("f2", "f4", "f8", "i1", "i8", "u2", "c8", "c16"))}
		    t |= {"scalar": some("f4", (), r), "empty": some("f8", (0, 4), r), "long.name/of a member": some("i4", 1000, r)}
		    names = sorted(t, key=lambda n: (len(n) * (r + 1)) % 7)  # a different order on every rank
		    (np.savez, np.savez_compressed)[r % 2](f"in.{r}.npz", **{n: t[n] for n in names})
	E
}

# bats test_tags=smoke
@test "a missing file is said to be missing, whatever its name; a pipe or a device is no output" {
	local name
	for name in nosuch nosuch.npy nosuch.bin nosuch.txt; do
		run -3 collctl allreduce -n 1 "$name" -o out.npy
		assert_output "collctl: rank 0: $name: cannot open: No such file or directory"
	done
	run -3 collctl info nosuch
	"$PYTHON" -c 'import numpy; numpy.save("in.npy", numpy.arange(6.))'
	mkfifo pipe pipe.npy
	for name in pipe pipe.npy; do
		run -4 collctl allreduce -n 1 in.npy -o "$name"
		assert_output "collctl: rank 0: $name: is a FIFO: expected a regular file or none; only -o - writes to a pipe"
	done
	run -4 collctl broadcast --raw-file -n 1 in.npy -o >(cat)
	assert_output --partial 'is a FIFO'
	run -4 collctl allreduce -n 1 in.npy -o /dev/null
	assert_output --partial '/dev/null: is a device'
}

@test ".npz: members of all types, stored and compressed, matched by name" {
	make_archives
	go 3 allreduce 'in.{rank}.npz' -o 'out.{rank}.npz'
	go 3 allreduce --op max --exclude 'c*' 'in.{rank}.npz' -o 'max.{rank}.npz'
	go 3 reduce --root 1 'in.{rank}.npz' -o 'red.{rank}.npz'
	go 3 broadcast --root 1 'in.{rank}.npz' -o 'cast.{rank}.npz'
	go 1 allreduce in.0.npz in.1.npz in.2.npz -o local.npz
	py <<-'E'
		ins = [load(f"in.{r}.npz") for r in range(3)]
		want = {n: sum((x[n] for x in ins[1:]), ins[0][n]) for n in ins[0]}
		most = {n: np.maximum.reduce([x[n] for x in ins]) for n in ins[0] if n[0] != "c"}
		for r in range(3):
		    check(f"out.{r}.npz", want)
		    check(f"max.{r}.npz", most)
		check("red.1.npz", want)
		check("local.npz", want)
	E
	cmp cast.0.npz in.1.npz
	cmp cast.2.npz in.1.npz
	[[ ! -e red.0.npz && ! -e red.2.npz ]]
}

@test ".npz: averages with weights; integers as --integers says" {
	make_archives
	go 3 allreduce --op avg --integers first --exclude 'c*' 'in.{rank}.npz' -o 'out.{rank}.npz'
	refused 2 "tensor 'i1': --op avg is not defined on i8" 3 allreduce --op avg 'in.{rank}.npz' -o 'no.{rank}.npz'
	refused 7 'differs from rank 0' 3 allreduce --op avg --integers equal 'in.{rank}.npz' -o 'no.{rank}.npz'
	py <<-'E'
		ins = [load(f"in.{r}.npz") for r in range(3)]
		got = load("out.2.npz")
		for n, a in got.items():
		    if a.dtype.kind in "iu":
		        assert a.tobytes() == ins[0][n].tobytes(), n
		    else:
		        mean = sum(x[n].astype("f8") for x in ins) / 3
		        assert np.allclose(a, mean, rtol=2e-3 if a.dtype == "f2" else 1e-6), n
	E
	run compgen -G 'no.*'
	assert_output ''
}

@test ".npz: a member that differs or is missing is named: 7" {
	make_archives
	py <<-'E'
		t = load("in.2.npz")
		np.savez("shape.2.npz", **(t | {"f4": some("f4", (5, 4), 0)}))
		np.savez("dtype.2.npz", **(t | {"f4": some("f8", (5, 3), 0)}))
		del t["u2"]
		np.savez("less.2.npz", **t)
		np.savez("more.2.npz", **load("in.2.npz"), zz=np.zeros(3))
	E
	for f in shape dtype less more; do
		cp in.0.npz $f.0.npz
		cp in.1.npz $f.1.npz
	done
	refused 7 "rank 2: shape.2.npz: tensor 'f4' f32 (5, 4) differs from f32 (5, 3) on ranks 0, 1" \
		3 allreduce 'shape.{rank}.npz' -o 'out.{rank}.npz'
	refused 7 "rank 2: dtype.2.npz: tensor 'f4' f64 (5, 3) differs from f32 (5, 3)" \
		3 reduce 'dtype.{rank}.npz' -o 'out.{rank}.npz'
	refused 7 "rank 2: less.2.npz: tensor 'u2' is missing; ranks 0, 1 have it" \
		3 allreduce 'less.{rank}.npz' -o 'out.{rank}.npz'
	refused 7 "rank 2: more.2.npz: has a tensor 'zz'" 3 allreduce 'more.{rank}.npz' -o 'out.{rank}.npz'
	refused 3 "tensor 'f4'" 1 allreduce in.0.npz shape.2.npz -o out.npz
	run compgen -G 'out.*'
	assert_output ''
}

@test ".npz: the other collectives refuse it; so does an array elsewhere, or another format's name" {
	make_archives
	make_shards 3 f32 5
	local k
	for k in reduce-scatter scatter gather allgather alltoall scan exscan; do
		refused 2 'takes arrays: only allreduce, reduce and broadcast' 3 $k 'in.{rank}.npz' -o 'out.{rank}.npz'
	done
	refused 2 'format' 3 allreduce 'in.{rank}.npz' -o 'out.{rank}.npy'
	refused 7 'rank 1: in.1.npz: content named tensors differs from one array on ranks 0, 2' \
		3 bash -c 'f=npy; ((COLLCTL_RANK != 1)) || f=npz
			exec "$0" allreduce "in.$COLLCTL_RANK.$f" -o "out.$COLLCTL_RANK.$f" "$@"' "$COLLCTL"
	run compgen -G 'out.*'
	assert_output ''
}

@test ".npz: hostile archives are refused with words: 3" {
	py <<-'E'
		np.savez("ok.npz", a=np.arange(1000.0))
		whole = open("ok.npz", "rb").read()
		open("cut.npz", "wb").write(whole[:-30])
		open("text.npz", "wb").write(b"no archive at all")
		open("empty.npz", "wb").close()
		at = whole.index(b"\x93NUMPY") + 200
		open("flip.npz", "wb").write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
		np.savez("object.npz", a=np.array([{}], dtype=object))
		np.savez("text_member.npz", a=np.array(["abc"]))
		with zipfile.ZipFile("stray.npz", "w") as z:
		    z.writestr("readme.txt", "hello")
	E
	local f
	for f in cut text empty flip object text_member stray; do
		refused 3 "$f.npz: " 1 allreduce $f.npz -o out.npz
		[[ ! -e out.npz ]]
	done
	refused 3 "object.npz: member 'a.npy': dtype '|O'" 1 allreduce object.npz -o out.npz
}

# ---- Fortran order ----

@test "Fortran's order is kept where all ranks have it, 1-d to 3-d; in place; through windows" {
	py <<-'E'
		for r in range(3):
		    for n, shape in {"1": (7,), "2": (300, 200), "3": (9, 40, 50), "0": (0, 3)}.items():
		        np.save(f"in.{n}.{r}.npy", np.asfortranarray(some("f4", shape, r)))
	E
	local n
	for n in 0 1 2 3; do
		go 3 allreduce "in.$n.{rank}.npy" -o "out.$n.{rank}.npy"
		go 3 allreduce --memory 64K "in.$n.{rank}.npy" -o "small.$n.{rank}.npy"
		go 3 reduce "in.$n.{rank}.npy" -o "red.$n.npy"
		go 3 scan "in.$n.{rank}.npy" -o "scan.$n.{rank}.npy"
		go 3 broadcast "in.$n.{rank}.npy" -o "cast.$n.{rank}.npy"
	done
	py <<-'E'
		for n in "0123":
		    ins = [np.load(f"in.{n}.{r}.npy") for r in range(3)]
		    for r in range(3):
		        for f in ("out", "small"):
		            check(f"{f}.{n}.{r}.npy", sum(ins))
		            assert in_fortran(f"{f}.{n}.{r}.npy") == in_fortran(f"in.{n}.{r}.npy"), (f, n)
		        check(f"scan.{n}.{r}.npy", sum(ins[: r + 1], 0 * ins[0]))
		        assert in_fortran(f"scan.{n}.{r}.npy") == in_fortran(f"in.{n}.{r}.npy"), n
		        check(f"cast.{n}.{r}.npy", ins[0])
		        assert in_fortran(f"cast.{n}.{r}.npy") == in_fortran(f"in.{n}.{r}.npy"), n
		    check(f"red.{n}.npy", sum(ins))
	E
	for r in 0 1 2; do cp "in.3.$r.npy" "place.$r.npy"; done
	go 3 allreduce 'place.{rank}.npy' -o 'place.{rank}.npy'
	cmp place.1.npy out.3.1.npy
}

@test "Fortran's order is converted where ranks differ, or the inputs of one, in files and archives" {
	py <<-'E'
		for r in range(3):
		    a, b = some("f4", (30, 20), r), some("i2", (4, 5, 6), r)
		    o = (np.asfortranarray, np.ascontiguousarray)
		    np.save(f"in.{r}.npy", o[r == 1](a))
		    np.savez(f"in.{r}.npz", a=o[0](a), b=o[r == 2](b), c=o[0](a))
		    np.savez(f"same.{r}.npz", a=o[0](a), b=o[1](b))
	E
	go 3 allreduce 'in.{rank}.npy' -o 'out.{rank}.npy'
	go 3 scan 'in.{rank}.npy' -o 'scan.{rank}.npy'
	go 3 allreduce 'in.{rank}.npz' -o 'out.{rank}.npz'
	go 3 allreduce 'same.{rank}.npz' -o 'kept.{rank}.npz'
	go 1 allreduce in.0.npy in.1.npy in.2.npy -o local.npy
	go 2 allreduce in.0.npy in.1.npy in.2.npy -o 'twice.{rank}.npy'
	go 2 allreduce in.0.npz in.1.npz in.2.npz -o 'twice.{rank}.npz'
	py <<-'E'
		ins = [np.load(f"in.{r}.npy") for r in range(3)]
		sets = [load(f"in.{r}.npz") for r in range(3)]
		total = {n: sum(x[n] for x in sets) for n in "abc"}
		total = {n: a.astype(sets[0][n].dtype) for n, a in total.items()}
		for r in range(3):
		    check(f"out.{r}.npy", sum(ins))
		    check(f"scan.{r}.npy", sum(ins[: r + 1], 0 * ins[0]))
		    assert not in_fortran(f"out.{r}.npy") and not in_fortran(f"scan.{r}.npy")
		    check(f"out.{r}.npz", total)
		    assert not any(npz_in_fortran(f"out.{r}.npz").values())
		    assert npz_in_fortran(f"kept.{r}.npz") == {"a.npy": True, "b.npy": False}
		    check(f"kept.{r}.npz", {n: total[n] for n in "ab"})
		check("local.npy", sum(ins))
		check("twice.1.npy", 2 * sum(ins))
		check("twice.0.npz", {n: 2 * a for n, a in total.items()})
	E
}

@test "Fortran's order is converted for what is cut or joined by rows, also in little memory" {
	py <<-'E'
		for r in range(3):
		    for n, shape in {"1": (7,), "2": (500, 300), "3": (9, 40, 50)}.items():
		        np.save(f"F.{n}.{r}.npy", np.asfortranarray(some("f4", shape, r).astype(">f4" if r == 1 else "f4")))
		        np.save(f"C.{n}.{r}.npy", some("f4", shape, r))
	E
	local n k
	for n in 1 2 3; do
		for k in reduce-scatter scatter gather allgather alltoall; do
			go 3 $k --memory 64K "F.$n.{rank}.npy" -o "$k.F.$n.{rank}.npy"
			go 3 $k "C.$n.{rank}.npy" -o "$k.C.$n.{rank}.npy"
			for r in 0 1 2; do
				[[ ! -e $k.C.$n.$r.npy ]] || cmp "$k.F.$n.$r.npy" "$k.C.$n.$r.npy"
			done
		done
	done
}

# ---- big-endian ----

@test "big-endian arrays, alone and in archives, with little-endian ones on other ranks" {
	py <<-'E'
		types = ("i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16")
		for r in range(3):
		    end = "<>"[r != 1]
		    t = {d: some(d, (11, 3), [r, i]) for i, d in enumerate(types)}
		    for n, a in t.items():
		        np.save(f"{n}.{r}.npy", a.astype(end + n))
		    np.savez(f"in.{r}.npz", **{n: a.astype("<>"[(r + i) % 2] + n) for i, (n, a) in enumerate(t.items())})
	E
	local t
	for t in i2 u4 i8 f2 f4 f8 c8 c16; do
		go 3 allreduce "$t.{rank}.npy" -o "out.$t.{rank}.npy"
	done
	go 3 gather 'f4.{rank}.npy' -o gather.npy
	go 3 broadcast --root 2 'c16.{rank}.npy' -o 'cast.{rank}.npy'
	go 3 allreduce 'in.{rank}.npz' -o 'out.{rank}.npz'
	go 3 broadcast --stats 'in.{rank}.npz' -o 'cast.{rank}.npz'
	cmp cast.2.npz in.0.npz
	py <<-'E'
		ins = [load(f"in.{r}.npz") for r in range(3)]
		want = {n: sum(x[n].astype(n) for x in ins) for n in ins[0]}
		for r in range(3):
		    check(f"out.{r}.npz", want)
		    for n, a in want.items():
		        check(f"out.{n}.{r}.npy", a)
		check("gather.npy", np.concatenate([np.load(f"f4.{r}.npy") for r in range(3)]))
		check("cast.1.npy", np.load("c16.2.npy"))
	E
}

# ---- stdin and stdout ----

@test "stdin and stdout: .npy, raw, .safetensors, .npz by --format; pipes and process substitution" {
	py <<-'E'
		a = some("f4", (40, 30), 1)
		np.save("in.npy", a)
		a.tofile("in.bin")
		t = {"a": a, "b": some("i8", 7, 2)}
		np.savez("in.npz", **t)
		save_safetensors("in.safetensors", t, {"made": "here"})
	E
	local f
	for f in npy npz safetensors; do
		go 1 allreduce --format $f - -o - <in.$f >out.$f
		# shellcheck disable=SC2002 # the test needs a pipe
		cat in.$f | collctl run -n 2 -- bash -c 'in=in.'$f'; ((COLLCTL_RANK)) || in=-
			exec "$0" allreduce --insecure --format '$f' $in -o two.$COLLCTL_RANK.'$f "$COLLCTL" 2>err || fail "$f: $(<err)"
		# shellcheck disable=SC2094
		go 1 allreduce --format $f <(cat in.$f) -o sub.$f
		cmp sub.$f out.$f
		go 1 broadcast --format $f - -o - <in.$f >cast.$f
	done
	go 1 allreduce --dtype f32 --format raw - -o - <in.bin | cat >out.bin
	cmp in.bin out.bin
	cmp in.npz cast.npz
	cmp in.safetensors cast.safetensors
	refused 3 '' 1 allreduce --format npy - -o none.npy </dev/null
	refused 3 '' 1 allreduce --format npz - -o none.npz <in.npy
	refused 3 '' 1 allreduce --format safetensors - -o none.safetensors </dev/null
	head -c 1000 in.npy >short.npy
	refused 3 '' 1 allreduce --format npy - -o none.npy <short.npy
	run compgen -G 'none.*'
	assert_output ''
	py <<-'E'
		a = np.load("in.npy")
		t = {"a": a, "b": some("i8", 7, 2)}
		check("out.npy", a)
		check("out.npz", t)
		check("out.safetensors", t)
		check("two.1.npy", 2 * a)
		check("two.0.npz", {n: 2 * x for n, x in t.items()})
		check("two.1.safetensors", {n: 2 * x for n, x in t.items()})
	E
}

# ---- --each ----

# Arrays of several types and shapes, whose first axis can be divided and joined: a.npy b.npy ... in folder R.
make_folders() {
	py <<-'E'
		what = {"a": ("f4", (7, 5)), "b": ("i8", (9,)), "c": ("f8", (4, 3, 2)), "d": ("f4", (300, 20)), "e": ("f2", (3, 1))}
		for r in range(3):
		    os.makedirs(f"in.{r}")
		    for i, (n, (dtype, shape)) in enumerate(what.items()):
		        rng = np.random.default_rng([r, i])
		        a = rng.standard_normal(shape).astype(dtype) if dtype[0] == "f" else some(dtype, shape, [r, i])
		        np.save(f"in.{r}/{n}.npy", a)
	E
}

# each_is_alone TAG KIND OPTIONS...: --each over all arrays gives what the collective gives of each alone
each_is_alone() {
	local tag=$1 kind=$2 n r
	shift 2
	go 3 "$kind" --each "$@" 'in.{rank}/'{a,b,c,d,e}.npy -o "$tag.{rank}/"
	for n in a b c d e; do
		go 3 "$kind" "$@" "in.{rank}/$n.npy" -o "alone.{rank}.npy"
		for r in 0 1 2; do
			if [[ -e alone.$r.npy ]]; then
				cmp "alone.$r.npy" "$tag.$r/$n.npy"
				rm "alone.$r.npy"
			else
				[[ ! -e $tag.$r ]] || fail "$kind: rank $r has a result"
			fi
		done
	done
}

@test "--each: what each array gives alone, with every collective" {
	make_folders
	local k
	for k in allreduce reduce reduce-scatter scan exscan; do
		each_is_alone "$k" "$k" --order rank
		each_is_alone "$k.max" "$k" --op max
	done
	for k in broadcast scatter gather allgather alltoall; do
		each_is_alone "$k" "$k"
	done
	each_is_alone root2 reduce --order rank --root 2
	each_is_alone scatter1 scatter --root 1
}

@test "--each: the same in little memory, and with an average" {
	make_folders
	local k
	for k in allreduce reduce-scatter scan; do
		each_is_alone "$k" "$k" --order rank --memory 16K
	done
	for k in allreduce reduce-scatter; do
		each_is_alone "$k.avg" "$k" --order rank --op avg --integers round --memory 16K
	done
	for k in broadcast scatter gather alltoall; do
		each_is_alone "$k" "$k" --memory 16K
	done
}

@test "--each: arrays, files of tensors and sets beside one another" {
	py <<-'E'
		for r in range(3):
		    np.save(f"a.{r}.npy", some("f4", 5, r))
		    t = {"x": some("f4", (2, 3), r), "y": some("i8", 4, r)}
		    save_safetensors(f"b.{r}.safetensors", t)
		    np.savez(f"c.{r}.npz", **t)
		    save_set(f"d.{r}", {"one.safetensors": {"x": t["x"]}, "two.safetensors": {"y": t["y"], "z": some("f8", (), r)}})
	E
	go 3 allreduce --each {a.'{rank}'.npy,b.'{rank}'.safetensors,c.'{rank}'.npz,d.'{rank}'/} -o 'out.{rank}'
	go 3 reduce --root 1 --each {d.'{rank}',a.'{rank}'.npy,c.'{rank}'.npz} -o 'red/'
	go 3 broadcast --root 1 --each {a,b,c}.1.* -o 'cast.{rank}'
	refused 2 'd.0: --each takes files, not sets' 3 broadcast --each a.0.npy d.0 -o none
	refused 2 'takes arrays' 3 scan --each a.0.npy b.0.safetensors -o none
	[[ ! -e none ]]
	py <<-'E'
		ins = [{f: load(f"{f}.{r}{e}") for f, e in (("a", ".npy"), ("b", ".safetensors"), ("c", ".npz"), ("d", ""))} for r in range(3)]
		want = {f: {n: np.asarray(sum(x[f][n] for x in ins)) for n in ins[0][f]} for f in ins[0]}
		for r in range(3):
		    for f, e in (("a", ".npy"), ("b", ".safetensors"), ("c", ".npz"), ("d", "")):
		        check(f"out.{r}/{f}.{r}{e}", want[f])
		check("red/d.1", want["d"])
		check("red/a.1.npy", want["a"])
		check("red/c.1.npz", want["c"])
	E
	local f
	for f in a.1.npy b.1.safetensors c.1.npz; do
		cmp cast.0/$f $f
		cmp cast.2/$f $f
	done
}

@test "patterns in quotes are expanded on each rank, after {rank}; no match is 3" {
	make_folders
	go 2 allreduce --each in.0/a.npy in.0/b.npy in.0/c.npy -o want
	go 2 allreduce --each 'in.0/[abc].npy' -o 'out.{rank}'
	diff -r want out.1
	go 2 allreduce --each 'in.{rank}/?.npy' -o 'own.{rank}'
	assert_equal "$(echo own.1/*)" "$(echo in.1/?.npy | sed 's,in,own,g')"
	go 2 allreduce 'in.0/a*.npy' -o 'sum.{rank}.npy' # one match needs no --each
	# A file with exactly this name is the input, even if the name is also a pattern.
	mkdir odd
	cp in.0/a.npy 'odd/[ab].npy'
	cp in.0/b.npy odd/a.npy
	go 2 broadcast 'odd/[ab].npy' -o 'odd.{rank}.npy'
	cmp odd.1.npy in.0/a.npy
	run -7 collctl verify -n 1 'in.0/[ab].npy'
	assert_output --regexp 'in.0/b.npy: .* of in.0/a.npy'
	refused 3 'rank 0: in.0/*.raw: no file matches' 2 allreduce --each 'in.{rank}/*.raw' -o none
	refused 2 "'in.0/b.npy' is one operand too many" 2 scan 'in.0/[ab].npy' -o none
	[[ ! -e none ]]
}

@test "a FIFO that matches a pattern is 3, not waited for; by its own name it is read" {
	mkdir in
	make_shard in/a.npy f32 5 0
	mkfifo in/b.npy
	for k in allreduce broadcast; do
		refused 3 "in/b.npy: is a FIFO that matches in/*.npy: to read it, give its own name" 2 $k --each 'in/*.npy' -o none
	done
	run -3 timeout 100 "$COLLCTL" verify -n 1 'in/[b].npy'
	assert_output --partial 'in/b.npy: is a FIFO'
	[[ ! -e none ]]
	# shellcheck disable=SC2094 # the FIFO and its contents
	cat in/a.npy >in/b.npy &
	go 1 broadcast in/b.npy -o copy.npy
	cmp copy.npy in/a.npy
}

@test "an unknown {word} in a name is 2, with those that are known; {{word}} is the name {word}" {
	make_shards 2 f32 3
	local name
	for name in 'in.{ran}.npy -o out' 'in.{rank}.npy -o out.{r}.npy'; do
		read -ra words <<<"$name"
		refused 2 'is unknown: expected {rank}, {size} or {host}' 2 allreduce "${words[@]}"
	done
	run -2 collctl verify -n 1 'in.{Rank}.npy'
	cp in.0.npy '{}{1}{a b}{.0.npy'
	cp in.1.npy '{}{1}{a b}{.1.npy'
	go 2 allreduce '{}{1}{a b}{.{rank}.npy' -o 'out.{{rank}}.{rank}of{size}.npy'
	[[ -s 'out.{rank}.1of2.npy' && -s 'out.{rank}.0of2.npy' ]]
	cp in.0.npy 'x{foo}.npy'
	go 2 broadcast 'x{{foo}}.npy' -o 'y.{rank}.npy'
	cmp y.1.npy in.0.npy
}

@test "--each: two inputs of one name, and other numbers of inputs, are told apart" {
	make_folders
	local k number
	refused 2 'is given as output twice' 3 allreduce --each in.0/a.npy in.1/a.npy -o none
	for k in broadcast scatter gather; do
		refused 2 'is given as output twice' 3 $k --each in.0/a.npy in.1/a.npy -o 'none.{rank}'
	done
	number='in=(in.0/{a,b}.npy); ((COLLCTL_RANK != 1)) || in=(in.0/a.npy); exec "$0" "$@" --each "${in[@]}" -o none'
	for k in allreduce reduce reduce-scatter scan gather allgather alltoall; do
		refused 7 "rank 1: $k: number of inputs 1 differs from 2 on ranks 0, 2" 3 bash -c "$number" "$COLLCTL" $k
	done
	refused 7 '--each not given differs from given' 3 bash -c \
		'e=--each; ((COLLCTL_RANK != 2)) || e=; exec "$0" allreduce $e in.0/a.npy -o none "$@"' "$COLLCTL"
	refused 7 "tensor 'input 2' i64 (9,) differs from f64 (4, 3, 2)" 3 bash -c 'x=c; ((COLLCTL_RANK != 2)) || x=b
		exec "$0" allreduce --each in.0/a.npy in.0/$x.npy -o none "$@"' "$COLLCTL"
	run compgen -G 'none*'
	assert_output ''
}

@test "--each: the folder: a file, stdout, none above it, with and without a slash, in place" {
	make_folders
	echo old >file
	refused 4 'file: is a file' 3 allreduce --each in.0/a.npy -o file
	assert_equal "$(<file)" old
	refused 2 "several files cannot be written to stdout" 3 allreduce --each in.0/a.npy -o -
	refused 4 'no/where: cannot create the folder: the folder around it does not exist' 3 allreduce --each in.0/a.npy -o no/where
	refused 2 'give one folder' 3 allreduce --each in.0/a.npy in.0/b.npy -o x -o y
	refused 2 'one operand too many' 3 scan in.0/a.npy in.0/b.npy -o x
	[[ ! -e - && ! -e no && ! -e x ]]
	go 3 allreduce --each 'in.{rank}/'{a,b}.npy -o 'new.{rank}'
	go 3 allreduce --each 'in.{rank}/'{a,b}.npy -o 'there.{rank}/'
	go 3 allreduce --each 'in.{rank}/'{a,b}.npy -o 'in.{rank}'
	cmp new.1/a.npy there.1/a.npy
	cmp new.1/a.npy in.1/a.npy
	cmp new.2/b.npy in.2/b.npy
	assert_equal "$(cd in.1 && echo .[!.]* *)" '.[!.]* a.npy b.npy c.npy d.npy e.npy'
}

@test "--each: hidden names, names that aren't ones, and a failure that leaves no folder" {
	make_folders
	cp in.0/a.npy .hidden.npy
	local k
	for k in broadcast scatter; do
		refused 2 ".hidden.npy: a hidden file cannot be copied to the folders of other ranks" 3 $k --each .hidden.npy -o none
	done
	[[ ! -e none ]]
	for k in allreduce gather alltoall; do
		go 3 $k --each .hidden.npy in.0/b.npy -o "$k.{rank}"
		[[ -e $k.0/.hidden.npy && -e $k.0/b.npy ]]
	done
	py <<<'save_set("set", {"s.safetensors": {"x": np.zeros(3, "f4")}})'
	go 1 allreduce --each set// -o out
	[[ -e out/set/$(basename set/*.json) ]]
	mkdir set/deep
	refused 2 'give the folder by its name' 1 bash -c 'cd set/deep && exec "$0" allreduce --each .. -o out "$@"' "$COLLCTL"
	refused 2 'set/.: with --each, give the folder by its name' 1 allreduce --each set/. -o none
	refused 3 'in.9/b.npy' 3 allreduce --each in.0/a.npy in.9/b.npy -o none
	: >in.2/b.npy
	refused 3 'in.2/b.npy' 3 allreduce --each 'in.{rank}/'{a,b}.npy -o none
	[[ ! -e none && ! -e set/deep/out ]]
}

# ---- --stats ----

# bats test_tags=smoke
@test "--stats: NaN and Inf of every input, by tensor and rank, on stderr and in --json" {
	py <<-'E'
		for r in range(3):
		    a = some("f4", (50, 20), r)
		    a[r, 3], a[10 : 12 + r, 5], a[49, 19] = np.nan, np.inf, -np.inf
		    np.save(f"a.{r}.npy", a)
		    np.save(f"big.{r}.npy", a.astype(">f8"))
		    np.save(f"c.{r}.npy", (1j * a.astype("c8").real).astype("c8") if r else a.astype("c8"))
		    np.savez(f"z.{r}.npz", a=a, fine=some("f2", 9, r), half=np.full(3 + 0 * r, np.inf, "f2"), ints=some("i8", 5, r))
	E
	local k r f
	for k in allreduce reduce reduce-scatter scan exscan gather allgather alltoall; do
		go 3 $k --stats 'a.{rank}.npy' -o 'out.{rank}.npy'
		for r in 0 1 2; do
			grep -qxF "[$r] collctl: rank $r: a.$r.npy: 1 NaN and $((3 + r)) Inf in 1000 elements" err || fail "$k: $(<err)"
		done
	done
	for k in broadcast scatter; do
		go 3 $k --root 2 --stats 'a.{rank}.npy' -o 'out.{rank}.npy'
		grep -qF 'rank 2: a.2.npy: 1 NaN and 5 Inf in 1000 elements' err
		assert_equal "$(grep -c NaN err)" 1
	done
	for f in a big; do
		go 2 allreduce --memory 4K --stats "$f.{rank}.npy" "$f.2.npy" -o 'out.{rank}.npy'
		grep -qF "[1] collctl: rank 1: $f.1.npy: 1 NaN and 4 Inf in 1000 elements" err
		grep -qF "[0] collctl: rank 0: $f.2.npy: 1 NaN and 5 Inf in 1000 elements" err
	done
	go 3 allreduce --op avg --weight 2 --integers first --stats --each 'z.{rank}.npz' 'a.{rank}.npy' -o 'each.{rank}'
	grep -qxF "[1] collctl: rank 1: z.1.npz: tensor 'a': 1 NaN and 4 Inf in 1000 elements" err
	grep -qxF "[2] collctl: rank 2: z.2.npz: tensor 'half': 0 NaN and 3 Inf in 3 elements" err
	grep -qxF "[0] collctl: rank 0: a.0.npy: 1 NaN and 3 Inf in 1000 elements" err
	run ! grep -E 'fine|ints' err
	for k in allreduce broadcast; do
		collctl --json run -n 3 -- $k --stats --insecure 'z.{rank}.npz' -o "$k.{rank}.npz" >j 2>err
		assert_equal "$(json j '.ranks[0].stats | [.count, .nan, .inf] | @json')" '[1017,1,6]'
		assert_equal "$(json j '.ranks[0].stats.tensors | map([.input, .name, .count, .nan, .inf]) | sort | @json')" \
			'[["z.0.npz","a",1000,1,3],["z.0.npz","half",3,0,3]]'
	done
	assert_equal "$(json j '.ranks[1].stats | [.count, .nan, .inf, .tensors] | @json')" '[0,0,0,[]]'
	go 1 allreduce --stats --include fine z.0.npz -o fine.npz
	grep -qF 'rank 0: no NaN and no Inf in 9 elements' err
	go 3 allreduce --stats 'c.{rank}.npy' -o 'out.{rank}.npy'
	grep -qF 'rank 0: c.0.npy: 1 NaN and 3 Inf in 1000 elements' err
}

@test "--stats -q says nothing; without --stats nothing is counted" {
	py <<<'np.save("a.npy", np.full(3, np.nan, "f4"))'
	go 1 allreduce --stats -q a.npy -o out.npy
	assert_equal "$(<err)" ''
	go 1 allreduce a.npy -o out.npy
	run ! grep NaN err
	collctl allreduce -n 1 -r 0 --insecure --json a.npy -o out.npy >j 2>err
	assert_equal "$(json j 'has("stats") and .stats != null')" false
}

# ---- names ----

@test "--json: names of files that are no UTF-8 are told, escaped" {
	local name=$'a\xff' k
	"$PYTHON" -c 'import numpy as np; np.save("a.npy", np.array([1, np.nan], "f4"))'
	mv a.npy "$name.npy"
	for k in allreduce broadcast; do
		collctl $k -n 1 --json -q --stats "$name.npy" -o "$name.out.npy" >j
		assert_equal "$(json j '[.inputs, .output] | @json')" '[["a\\xff.npy"],"a\\xff.out.npy"]'
		assert_equal "$(json j '.stats.tensors | map([.input, .nan]) | @json')" '[["a\\xff.npy",1]]'
	done
}

@test "stdin can be one input, not two" {
	printf 12345678 >in.raw
	run -2 --separate-stderr collctl allreduce -n 1 --dtype i32 - - -o - <in.raw
	[[ $stderr == *'stdin: is given as input twice'* ]]
	assert_output ''
	cp in.raw same.raw
	collctl allreduce -n 1 -q --op max --dtype i32 - in.raw -o out.raw <same.raw
	cmp out.raw in.raw
}

@test "broadcast --each --include: of every file the tensors that were chosen" {
	local k f
	"$PYTHON" - <<-END
		import json, struct
		for name, tensors in ("one", "a"), ("two", "ab"):
		    head = json.dumps({t: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
		                       for i, t in enumerate(tensors)}).encode()
		    with open(f"{name}.safetensors", "wb") as f:
		        f.write(struct.pack("<Q", len(head)) + head + b"abcd" * len(tensors))
	END
	for names in 'one two' 'two one' two; do
		read -ra k <<<"$names"
		collctl run -n 2 -- broadcast -q --no-sync --each --include a "${k[@]/%/.safetensors}" -o 'out.{rank}'
		diff -r out.0 out.1
		for f in "${k[@]}"; do
			assert_equal "$(collctl info --json "out.1/$f.safetensors" | jq -c '[.tensors[].name]')" '["a"]'
		done
		assert_equal "$(compgen -G 'out.1/*' | wc -l)" ${#k[@]}
		rm -r out.0 out.1
	done
}

# ---- files of another format than their name says ----

@test "3: a pickle, a zip, a .npy or a .safetensors file is raw only with --format raw" {
	local golden=$ROOT/tests/golden f name says
	"$PYTHON" - <<-'END'
	import numpy, zipfile
	numpy.savez("two.npz", a=numpy.arange(3.0), b=numpy.arange(4.0))
	numpy.save("one.npy", numpy.arange(6.0))
	with zipfile.ZipFile("other.zip", "w") as z:
	    z.writestr("notes", b"x" * 80)
	    z.comment = b"c" * 60000
	END
	for f in "$golden/torch/legacy.pt" two.npz other.zip one.npy "$golden/types.safetensors"; do
		case $f in
		*legacy*) says='a pickle, as torch.save wrote it before version 1.6: load it with torch and save it again' ;;
		*.npz | *.zip) says='a zip archive: ' ;;
		*.npy) says='a .npy file: name it .npy' ;;
		*) says='a .safetensors file: name it .safetensors' ;;
		esac
		for name in x.bin x.raw x; do
			rm -f x*
			if [[ $name == *.raw ]]; then ln -s "$f" "$name"; else cp "$f" "$name"; fi
			run --separate-stderr collctl run -n 2 -- allreduce --dtype u8 $name -o out.bin
			assert_equal "$status" 3
			[[ $stderr == *"$name: is $says"*', or give --format '*raw* ]] || fail "$stderr"
			run --separate-stderr collctl info --dtype u8 $name
			assert_equal "$status" 3
			[[ $stderr == *"$name: is $says"*', or give --format '*'raw, or --raw-file for its bytes' ]] || fail "$stderr"
		done
		run --separate-stderr collctl allreduce -n 1 --dtype u8 - -o out.bin <"$f"
		assert_equal "$status" 3
		[[ $stderr == *"stdin: is $says"* ]] || fail "$stderr"
		assert_not_exists out.bin
		collctl run -n 2 -- allreduce -q --op max --dtype u8 --format raw "$f" -o out.raw
		cmp out.raw "$f"
		collctl run -n 2 -- broadcast -q --raw-file x -o 'copy.{rank}'
		cmp copy.1 "$f"
	done
}

@test "raw: what only begins like an archive or a header is read" {
	local n=0 begin
	for begin in 'PK\3\4' '\x93NUMP' '\x80\x02\x8a' '\x10\0\0\0\0\0\0\0{' '\xff\0\0\0\0\0\0\0{"' 'PK'; do
		printf "%b" "$begin" >x.bin
		head -c $((n++ * 16)) /dev/zero >>x.bin
		collctl run -n 2 -- allreduce -q --op max --dtype u8 x.bin -o out.bin
		cmp out.bin x.bin
	done
}

# ---- one name for all ranks ----

@test "ranks that read the same inputs: a note names {rank}, and the summary counts the inputs" {
	local k says='put {rank} into the name'
	make_shards 4 f64 5
	for k in 0 1 2 3; do ln "in.$k.npy" "hard.$k.npy"; ln -s in.0.npy "soft.$k.npy"; done
	run --separate-stderr collctl run -n 4 -- allreduce in.[0-3].npy -o out.npy
	assert_success
	[[ $stderr == *'[0] collctl: rank 0: ranks 0-3 read the same inputs, which count 4 times: put {rank} into the names if each rank has its own'* ]] || fail "$stderr"
	[[ $stderr == *'allreduce sum of 4 ranks, 16 inputs by '* ]] || fail "$stderr"
	assert_equal "$(grep -c . <<<"$stderr")" 2
	for k in 'allreduce in.0.npy' 'allgather in.0.npy' 'gather in.0.npy' 'alltoall in.0.npy' 'scan in.0.npy' \
		'allreduce soft.{rank}.npy' 'gather --raw-file in.0.npy'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr collctl run -n 2 -- $k -o 'out.{rank}.npy'
		assert_success
		[[ $stderr == *"ranks 0, 1 read the same input, which counts 2 times: $says if each rank has its own"* ]] || fail "$k: $stderr"
	done
	# Two of four do.
	cp in.0.npy own.0.npy
	cp in.1.npy own.2.npy
	ln -s in.3.npy own.1.npy
	ln in.3.npy own.3.npy
	run --separate-stderr collctl run -n 4 -- allreduce 'own.{rank}.npy' -o out.npy
	[[ $stderr == *'rank 0: ranks 1, 3 read the same input, '* ]] || fail "$stderr"
	# No note: every rank has its own; only the root's counts; one rank; -q; a pipe.
	for k in 'allreduce hard.{rank}.npy' 'broadcast in.0.npy' 'scatter in.0.npy' 'allreduce -q in.0.npy'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr collctl run -n 4 -- $k -o 'out.{rank}.npy'
		assert_success
		[[ $stderr != *'the same input'* && $stderr != *' inputs '* ]] || fail "$k: $stderr"
	done
	run --separate-stderr collctl allreduce -n 1 in.0.npy in.0.npy -o out.npy
	[[ $stderr != *'the same input'* && $stderr == *'sum of 2 files by '* ]] || fail "$stderr"
	run --separate-stderr collctl run -n 2 -- allreduce -v in.[0-3].npy -o out.npy --json
	assert_equal "$(jq -sc '[.[].all_inputs]' <<<"$output")" '[8,8]'
}

# ---- archives that expand ----

@test "3: an .npz that unpacks to more than 100 times its size and than --memory, before it is unpacked" {
	local k
	"$PYTHON" - <<-'END'
	import numpy, zipfile
	numpy.savez_compressed("x.npz", a=numpy.zeros(500_000), b=numpy.zeros(500_000))
	numpy.save("short.npy", numpy.zeros(10))
	with zipfile.ZipFile("lie.npz", "w", zipfile.ZIP_DEFLATED) as z:
	    z.writestr("a.npy", open("short.npy", "rb").read() + bytes(50_000_000))
	END
	(($(stat -c %s x.npz) * 100 < 8000000))
	expands() {
		run -3 --separate-stderr bash -c "ulimit -f 1024; exec \"\$@\"" - "$@"
		[[ $stderr == *'unpacks to 7.6 MiB: more than 100 times its size and more than --memory: the limit is 1.0 MiB; if that is right, give more --memory'* ]] || fail "$stderr"
	}
	expands "$COLLCTL" allreduce -n 1 --memory 1M x.npz -o out.npz
	expands "$COLLCTL" allreduce -n 1 --memory 1M --dry-run x.npz -o out.npz
	expands "$COLLCTL" run -n 2 -- verify --memory 1M x.npz
	expands "$COLLCTL" info --memory 1M x.npz
	expands "$COLLCTL" allreduce -n 1 --memory 1M --format npz - -o out.npz <x.npz
	assert_not_exists out.npz
	collctl allreduce -n 1 -q --memory 8M x.npz -o out.npz
	collctl info x.npz >/dev/null
	# A member with a header for less is found at its header.
	for k in 1M 1G; do
		run -3 --separate-stderr bash -c "ulimit -f 1024; exec \"\$@\"" - "$COLLCTL" info --memory $k lie.npz
		[[ $k == 1M || $stderr == *"member 'a.npy'"* ]] || fail "$stderr"
	done
}
