#!/usr/bin/env bats
# The examples of README, docs/tutorial.md and docs/recipes.md that one machine can run, as they stand there. Those of the
# tutorial for four hosts are run by tests/launchers/tutorial.bats.

load helpers

setup() {
	common_setup
	mkdir bin
	ln -s "$COLLCTL" bin/collctl
	ln -s "$(command -v "$PYTHON")" bin/python3
	PATH=$PWD/bin:$PATH
}

# typed FILE BLOCK...: the blocks, in a shell
typed() {
	blocks "$@" >commands
	sh -e commands
}

@test "every block of commands has a test, or says why not" {
	local file name
	for file in tutorial recipes; do
		grep '^```sh' "$ROOT/docs/$file.md" >fences
		[[ $(wc -l <fences) -gt 10 ]]
		while read -r _ name; do
			case $name in
			'') fail "$file.md: a block without a name" ;;
			not-run:\ ?*) ;;
			*) grep -hE "^\s*(on_n0|(typed|blocks) docs/$file.md) " "$ROOT"/tests/{cli/docs,launchers/tutorial}.bats |
				grep -qE " ${name%% *}( |\$)" || fail "$file.md: no test runs the block $name" ;;
			esac
		done <fences
	done
}

@test "README: the line to copy; at most 150 lines" {
	typed README.md line >sums
	assert_equal "$(cut -d' ' -f1 sums | sort | uniq -c | sed 's/ *\([0-9]*\) .*/\1/')" 4
	"$PYTHON" -c 'import numpy
i = [numpy.fromfile(f"in.{r}.raw", "<i4") for r in range(4)]
assert (numpy.fromfile("sum.3.raw", "<i4") == i[0] + i[1] + i[2] + i[3]).all()'
	(($(wc -l <"$ROOT/README.md") <= 150))
}

@test "tutorial, on one machine: shards, their average, a file that is missing" {
	typed docs/tutorial.md shards average
	typed docs/tutorial.md verify
	typed docs/tutorial.md alone
	cp mean.1.npy old.npy
	blocks docs/tutorial.md broken >commands
	run -3 --separate-stderr sh -e commands
	# The rank that prints it is the one whose failure is known first.
	assert_equal "${stderr#\[[0-3]\] }" "$(blocks docs/tutorial.md broken-says | sed 's/^\[[0-3]\] //')"
	cmp mean.1.npy old.npy
	typed docs/tutorial.md whole
	assert_exist shard.2.npy
}

@test "recipes: arrays in parts, a histogram, many files, a barrier, links" {
	local r
	make_shards 4 f32 50,3
	for r in 0 1 2 3; do mv "in.$r.npy" "gradient.$r.npy"; done
	for r in 0 1 2 3; do
		mkdir "w$r"
		cp "gradient.$r.npy" "w$r/a.npy"
		cp "gradient.$((3 - r)).npy" "w$r/b.npy"
		seq 0.005 0.0$((r + 1)) 0.999 >"values.$r"
	done
	cp gradient.0.npy all.npy
	typed docs/recipes.md shards reduce-scatter histogram each barrier check
	check_numpy sum sum.{0..3}.npy sums.{0..3}/{a,b}.npy --in gradient.{0..3}.npy
	"$PYTHON" -c 'import numpy
v = numpy.concatenate([numpy.loadtxt(f"values.{r}") for r in range(4)])
for r in range(4): assert (numpy.load(f"histogram.{r}.npy") == numpy.histogram(v, 10, (0, 1))[0]).all()'
	assert_equal "$(cat seen.{0..3} | sort | uniq -c | grep -c ' 4 ready')" 4
	assert_exist links.svg
}

@test "recipes: checkpoints, copies, logs" {
	local r
	oracle checkpoint make averaged 4 --in 'model.{rank}.safetensors'
	mkdir -p tools/deep
	echo tool >tools/deep/tool
	chmod 755 tools/deep/tool
	for r in 0 1 2 3; do
		echo $((r + 1)) >"samples.$r"
		echo "log of $r" >"app.$r.log"
		mkdir "log.$r"
		touch "log.$r/"{today,old.gz}
	done
	typed docs/recipes.md federated merge fan-out logs
	oracle checkpoint check allreduce avg 4 --in 'model.{rank}.safetensors' --out 'average.{rank}.safetensors' --weights 1,2,3,4
	for r in 0 1 2 3; do
		cmp tools/deep/tool "copy.$r/deep/tool"
		[[ -x copy.$r/deep/tool ]]
		cmp model.1.safetensors "model.copy.$r"
		cmp "app.$r.log" "logs/$r/app.$r.log"
		assert_equal "$(ls "all/$r")" today
	done
	oracle checkpoint check allreduce avg 1 --inputs 4 --in 'model.{k}.safetensors' --out mean.safetensors
	assert_equal "$(cat app.{0..3}.log)" "$(<all.log)"
}
