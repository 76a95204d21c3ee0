#!/usr/bin/env bats
# What commands print with --json: the rows of cmd/json/fields.c, the JSON Schema and the manual say what is printed.

load helpers

GOLDEN=$ROOT/tests/golden/torch

# prints NAME ARG...: the line that collctl prints on stdout is added to NAME.out; any exit code
prints() {
	local name=$1
	shift
	collctl "$@" >>"$name.out" 2>err </dev/null || true
	[[ -s $name.out ]] || fail "collctl $*: no output: $(<err)"
}

# Every command, with the options that add fields.
print_all() {
	local a
	make_shards 2 f32 40,10
	"$PYTHON" -c 'import numpy as np
a = np.load("in.0.npy"); a[1] = np.nan; a[2] = np.inf; np.save("nan.npy", a); np.savez("set.npz", x=a, y=a[0])'
	head -c 3000000 /dev/urandom >data
	mkdir tree old left pieces copies.0 copies.1
	ln -s a tree/link && cp data tree/a && cp data old/a && cp data copies.0/a && cp data copies.1/a
	echo more >>tree/a && echo gone >copies.0/gone && echo gone >copies.1/gone

	prints simple --version --json
	prints simple version --json
	prints simple algorithms --json
	prints simple plan allreduce --hosts 2x2 -a hosts --verify --json
	prints simple plan gather -n 4 --compare --json
	prints simple info --stats --json nan.npy set.npz none.npy
	prints simple info --no-digest --json "$GOLDEN/training.pt"
	COLLCTL_TLS_RECORDS=none prints simple version --json
	cp "$GOLDEN/dcp/.metadata" "$GOLDEN/dcp/__0_0.distcp" pieces
	prints simple info --json pieces
	for a in .x.collctl-part .y.collctl-part .z.collctl-old-abcdefghijkl; do printf abc >left/$a; done
	exec {lock}<left/.y.collctl-part
	flock "$lock"
	prints simple clean --older-than 0 --json left
	exec {lock}<&-

	prints jobs allreduce -n 1 --json --stats nan.npy set.npz -o none
	prints jobs run -n 2 -- allreduce --json --stats --wire q8 nan.npy -o '{rank}.npy' --no-sync
	prints jobs run -n 2 -- allreduce --json --dry-run 'in.{rank}.npy' -o '{rank}.npy'
	prints jobs allreduce -n 1 --json --stats --dtype f32 --output-dtype f16 set.npz -o out.npz
	prints jobs run -n 2 -- broadcast --json --dry-run --raw-file --links --delete tree/ -o 'copies.{rank}/'
	prints jobs run -n 2 -- broadcast --json --raw-file --delta old/ --delete tree/ -o 'copies.{rank}/'
	prints jobs run -n 2 -- scatter --json --order rank in.0.npy -o 'part.{rank}.npy'
	prints jobs run -n 2 -- barrier --json
	prints jobs run -n 3 -- barrier --min-ranks 2 --json
	prints jobs run -n 3 -- allreduce --min-ranks 2 --grace 200ms --json 'in.{rank}.npy' -o 'some.{rank}.npy'
	prints jobs run -n 2 -- verify --same --json in.0.npy in.0.npy
	prints jobs run -n 2 -- verify --json 'in.{rank}.npy'
	prints jobs run -n 2 -- check --time 2ms --json
	prints jobs run -n 2 -- bench allreduce -b 4K -e 8K --iters 2 -w 0 --check --json
	prints jobs --json run -n 2 -- allreduce 'none.{rank}.npy' -o '{rank}.npy'
	collctl run -n 2 -- allreduce -q --progress json --force 'in.{rank}.npy' -o '{rank}.npy' 2>progress.out
	# shellcheck disable=SC2016 # for the ranks' shells
	COLLCTL_BIN=$COLLCTL collctl run -n 2 -- bash -c 'export COLLCTL_HOST_ID=n$COLLCTL_RANK COLLCTL_LINK_RATE=1Gbit
		for job in "allreduce --force -o $COLLCTL_RANK.npz set.npz" "verify set.npz" barrier; do "$COLLCTL_BIN" $job --json || exit; done \
			>hosts.$COLLCTL_RANK.out' 2>err || fail "$(<err)"
	if [[ -r ${COLLCTL%/*}/collctl-standin.so ]]; then
		(
			use_standin 2 && use_nccl
			prints device version --json
			prints device run -n 2 -- allreduce --json --force --device cuda:0,1 --device-path nccl in.0.npy in.1.npy -o '{rank}.npy'
		)
	fi

	for a in '' 'frobnicate' 'keygen' 'help' 'serve' 'plan none' 'algorithms none' 'info' 'clean none' 'run -n 2 -- true' 'barrier --op x' \
		'verify none -n 1' 'check x' 'bench none -n 1' 'invite -n 2 -- barrier' 'allreduce'; do
		# shellcheck disable=SC2086 # words
		prints failed --json $a
	done
}

# The fields that no command above prints, because of what they need: ranks that come late or lack files, a folder that root
# may not change, slow links, hosts that ssh does not reach, an NCCL that fails, a program that is linked statically. barrier and verify have the fields of collectives.
unseen() {
	cat <<-'END'
		barrier inputs[]
		barrier missing[]
		barrier network.rate.down
		barrier network.rate.up
		barrier tensors
		check absent[]
		check findings[]
		check missing[]
		clean failed[].bytes
		clean failed[].path
		clean failed[].why
		collective device.nccl.error
		collective without_old
		collective without_old.bytes
		collective without_old.ranks
		collective without_old.ranks[]
		progress progress.joined
		progress progress.joined.here
		progress progress.joined.hosts
		progress progress.joined.missing
		progress progress.joined.size
		progress progress.slowest.done
		progress progress.slowest.rank
		verify network.rate.down
		verify network.rate.up
		version build.lacks[]
	END
	[[ -r ${COLLCTL%/*}/collctl-standin.so ]] || sed -n 's/.*"\(\(device\|gpu_plugin\)[a-z_.]*\)".*/\1/p' "$ROOT/cmd/json/fields.c" |
		sed 's/^device/collective &/; s/^gpu/version &/'
}

@test "every output is valid by the schema, and every row of the table is printed" {
	"$PYTHON" -c 'import jsonschema' 2>/dev/null || skip 'no jsonschema: Debian has python3-jsonschema'
	print_all
	collctl invite -n 2 --advertise 127.0.0.1 --json >invite.out 2>err 3>&- &
	STARTED+=($!)
	until [[ -s invite.out ]]; do kill -0 $!; done
	kill $!
	collctl help --json-schema >schema.json
	"$PYTHON" "$HELPERS_DIR/json_schema.py" schema.json ./*.out >seen 2>invalid || fail "$(<invalid)"
	jq -r -f "$HELPERS_DIR/fields.jq" schema.json | sort -u >rows
	unseen | sort -u >expected
	comm -13 seen rows | grep -vxFf expected >never || true
	[[ ! -s never ]] || fail "in cmd/json/fields.c, but printed by no command here: $(<never)"
}

@test "the manual has every field once, with its type and unit" {
	collctl help --mdoc json >page
	collctl help --json-schema | jq -r -f "$HELPERS_DIR/fields.jq" | cut -d' ' -f2 | sort -u >rows
	sed -nE 's/\\//g; s/^\.It Va ([^ ]+) Pq (string|integer|number|boolean|object|array|any value).*/\1/p' page | sort -u >told
	diff rows told
	grep -qx '.It Va links\[\].bandwidth Pq number or null, bytes/s' page
	# A bandwidth is in bytes per second, besides those of nccl-tests.
	assert_equal "$(grep -E 'Va [^ ]*(bandwidth\.[a-z]+|\.bandwidth|rate\.[a-z]+|\.rate) ' page | grep -v 'bytes/s' | grep -v object)" ''
	assert_equal "$(grep -c '10^9 bytes/s' page)" 4
}

@test "the examples of collctl-json(5) run" {
	mkdir bin
	ln -s "$COLLCTL" bin/collctl
	"$PYTHON" -c 'import numpy as np
for r in range(4): np.save(f"shard.{r}.npy", np.ones(9, "f4"))
np.save("all.npy", np.arange(48.0))
np.savez("a.npz", bad=np.array([1, np.nan]), good=np.ones(2))'
	awk '/^\.Bd/ { show = 1; next } /^\.Ed/ { show = 0; printf "\001" } show' "$ROOT/man/collctl-json.5.in" |
		sed "s/a\\.safetensors/a.npz/; s/\\\\(aq/'/g; s/\\\\-/-/g" | sed 's/\\e/\\/g' >examples
	local n=0 code
	while IFS= read -r -d $'\x01' code; do
		[[ $code == *jq* ]] || continue
		n=$((n + 1))
		PATH=$PWD/bin:$PATH sh -c "$code" >"said.$n" 2>err || fail "$code: $(<err)"
		[[ -s said.$n ]] || fail "$code prints nothing"
	done <examples
	assert_equal "$n" 8
	assert_equal "$(<said.7)" bad
	assert_equal "$(<said.8)" 'input: none.npy: cannot open: No such file or directory'
}

# bats test_tags=smoke
@test "run prints the objects of the ranks in their order, whichever ends first" {
	make_shards 5 f32 100
	collctl run -n 16 -- barrier --json >j # no order by chance
	assert_equal "$(jq -c .rank j | paste -sd' ')" "$(seq 0 15 | paste -sd' ')"
	run -10 --separate-stderr collctl run -n 5 --label -- verify --json 'in.{rank}.npy'
	assert_equal "$(cut -d' ' -f1 <<<"$output" | paste -sd' ')" '[0] [1] [2] [3] [4]'
	jq -se 'map(.ok) | any | not' <<<"${output//\[[0-9]\] /}"
}
