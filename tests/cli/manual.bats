#!/usr/bin/env bats
# The manual: a page for each command, with its options and its examples, and every example runs.

load helpers

COMMANDS=$(sed -nE 's/^\t\{"([a-z-]+)", .*/\1/p' "$ROOT/cmd/commands.c")

@test "every command has a page with all its options and no other, and help shows its examples" {
	local c want
	for c in $COMMANDS; do
		[[ -s $ROOT/man/collctl-$c.1.in ]] || fail "no man/collctl-$c.1.in"
		collctl help --mdoc "$c" >page
		collctl help "$c" >text
		grep -q "^The manual has more: man collctl-$c$" text
		grep -qx '@FRAGMENT@' page
		grep -oE '^      --[a-z-]+|^  -., --[a-z-]+' text | grep -oE -- '--[a-z-]+' | sort -u >in_help
		grep -E '^\.It Fl' page | sed 's/\\//g' | grep -oE 'Fl -[a-z-]+' | sed 's/Fl /-/' | sort -u >in_page
		diff in_help in_page || fail "$c: the page and help have different options"
		want=3
		[[ $c != @(keygen|version|help) ]] || want=1
		(($(grep -c '^\.Bd -literal' <(sed -n '/^\.Sh EXAMPLES/,$p' page)) >= want)) || fail "$c has too few examples"
		! sed -n '/^\.Bd -literal/,/^\.Ed/p' page | sed 's/\\e/./g; s/\\//g' | grep -E '^.{74}' || fail "$c: an example is wider than 80 columns"
		sed -n '/^\.Sh SEE ALSO/,$p' page | grep -oE 'collctl-[a-z-]+' | sort -u |
			grep -vxFf <(awk '{ print "collctl-" $1 }' <<<"$COMMANDS") && fail "$c: SEE ALSO names a page that does not exist"
		(($(sed -n '/^Examples:/,$p' text | grep -c '^      [^ ]') >= want)) || fail "help $c has too few examples"
	done
}

@test "hand-written parts name only options that exist" {
	local f option
	for c in '' $COMMANDS; do
		collctl help ${c:+"$c"}
	done | grep -oE '(^|[ (,])--?[a-z-]+' | tr -d ' (,' | sort -u >known
	for f in "$ROOT"/man/*.1.in; do
		grep -oE 'Fl (\\-)?[a-z\\-]+' "$f" | sed 's/\\//g; s/Fl /-/' | sort -u >named
		while read -r option; do
			# of etcd
			[[ $option == --enable-grpc-gateway ]] || grep -qxe "$option" known || fail "${f##*/} names $option"
		done <named
	done
}

@test "no quotation of the pages is in another" {
	local f
	# A macro quotes the rest of its line; one word in double quotes loses these.
	for f in "$ROOT"/man/*.1.in; do
		refute grep -nE '^\.(Pq )?[QD][lq] .* ([QD][lq]|No) ' "$f"
		refute grep -nE '^\.[QD][lq] "[^"]*"[^ ]' "$f"
	done
}

@test "help is as wide as COLUMNS or the terminal, between 60 and 120 columns" {
	local c width
	for width in 60 100 120; do
		for c in '' $COMMANDS; do
			# shellcheck disable=SC2086
			COLUMNS=$width collctl help $c | sed '/^Examples:/,/^The manual/d; /^Usage/d' >text
			[[ $(wc -L <text) -le $width ]] || fail "help $c at $width columns: $(wc -L <text)"
		done
		COLUMNS=$width collctl help allreduce | sed '/^Examples:/,/^The manual/d' | wc -L >>widths
	done
	(($(sort -nu widths | wc -l) == 3)) || fail "$(<widths)"
	cmp <(COLUMNS=20 collctl help) <(COLUMNS=60 collctl help)
	cmp <(COLUMNS=500 collctl help) <(COLUMNS=120 collctl help)
	cmp <(env -u COLUMNS "$COLLCTL" help) <(COLUMNS=80 collctl help)
}

# What the examples need.
prepare() {
	"$PYTHON" - <<'PY'
import json, struct
import numpy as np
rng = np.random.default_rng(1)
for r in range(4):
    np.save(f"shard.{r}.npy", rng.standard_normal((8, 3), dtype=np.float32))
np.save("all.npy", np.arange(48.0).reshape(16, 3))
np.arange(24, dtype="<i8").tofile("counts.bin")
np.save("shard.npy", np.ones(8)), np.save("mean.npy", np.ones(8))
head = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
for r, name in enumerate("ab"):
    with open(name + ".safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + np.full(4, r, "<f4").tobytes())
PY
	local r
	for r in 0 1 2 3; do
		cp all.npy copy.$r.npy
		echo "log of $r" >log.$r
	done
	mkdir -p folder copies.0 copies.1
	echo one >folder/one && cp folder/one copies.0 && cp folder/one copies.1
	echo model >model.tar && cp model.tar model.0.tar && cp model.tar model.1.tar
	collctl keygen job.secret
}

# A host of the examples is a mount namespace where this folder has other files.
ssh_to() {
	cat >"$1" <<-'SH'
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind "$1" "$2" && cd / && cd "$2" && exec sh -c "$3"' - "$HOSTS/$1" "$WORK" "$2"
	SH
	chmod +x "$1"
}

# run_example COMMAND CODE DIR: run it in the new folder DIR
run_example() {
	local command=$1 code=$2 dir=$3
	mkdir "$dir"
	cd "$dir" || return
	cp -R ../ready/. .
	case $code in
	*' -H a,b'*)
		local h
		for h in 1 2 3 4; do
			mkdir -p "../$dir.hosts/127.0.0.$h"
			cp -R ../ready/. "../$dir.hosts/127.0.0.$h"
		done
		export HOSTS=$PWD.hosts WORK=$PWD COLLCTL_SSH=$PWD/../ssh COLLCTL_REMOTE_PATH=$COLLCTL
		code=$(sed 's/-H a,b,c,d/-H 127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4/; s/-H a,b /-H 127.0.0.1,127.0.0.2 /' <<<"$code")
		;;
	*'ssh b'*) # the reader of the secret
		code=${code/ssh b/sh -c}
		;;
	*-R\ http://head*) # two ranks and a store
		mv job.secret job.key
		collctl serve --listen 127.0.0.1:0 --port-file port >/dev/null 2>&1 3>&- &
		local store=$!
		until [[ -s port ]]; do kill -0 $store || return; done
		code=${code/head:7700/127.0.0.1:$(<port)}
		sh -c "${code/-r 0/-r 1}" &
		sh -ec "$code"
		local rc=$?
		wait $! || rc=$?
		kill $store
		return $rc
		;;
	'collctl invite'*)
		local ticket='' size=${code#*-n } others=() pid rc=0
		code=${code/invite/invite --advertise 127.0.0.1}
		sh -ec "exec $code" 2>said 3>&- &
		local inviter=$!
		until ticket=$(grep -ohsE 'cc1-[a-z2-7]+$|cc1-[a-z2-7]+ ' said ticket | tr -d ' ') && [[ -n $ticket ]]; do kill -0 $inviter || return; done
		for ((pid = 1; pid < ${size%% *}; pid++)); do
			[[ $code == *' -- '* ]] || break
			(mkdir "$pid" && cp ../ready/* "$pid" 2>/dev/null; cd "$pid" && COLLCTL_TICKET=$ticket sh -ec "exec collctl ${code#* -- }") 3>&- &
			others+=($!)
		done
		((${#others[@]})) || kill -TERM $inviter
		wait $inviter || rc=$?
		((${#others[@]} == 0 && rc == 143)) || wait "${others[@]}" || return
		((rc == 0 || rc == 143))
		return
		;;
	'collctl serve'*)
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=store -keyout store.key -out store.pem 2>/dev/null
		head -c 20 /dev/urandom | base64 >token
		chmod 600 store.key token
		# The port of the example may be in use here; the kernel gives another.
		code=${code/0.0.0.0:7700/127.0.0.1:0}
		[[ $code == *--listen* ]] || code+=' --listen 127.0.0.1:0'
		[[ $code == *--port-file* ]] || code+=' --port-file port'
		sh -ec "exec $code" 3>&- &
		local served=$!
		until [[ -s port ]]; do kill -0 $served || return; done
		kill -TERM $served
		wait $served
		(($? == 143 || $? == 0))
		return
		;;
	esac
	[[ $command != keygen || $code != *job.key* ]] || rm -f job.key
	sh -ec "$code"
}

@test "every example runs" {
	unshare -m true 2>/dev/null || skip 'mount namespaces, which stand for hosts here, need root'
	mkdir ready bin
	(cd ready && prepare)
	ssh_to ssh
	ln -s "$COLLCTL" bin/collctl
	PATH=$PWD/bin:$PATH
	local c n=0 code
	for c in $COMMANDS; do
		collctl help "$c" | sed -n '/^Examples:/,/^The manual/{s/^      //p;t;s/^  .*/@@/p}' | grep -v '^The manual' >examples
		# An example begins at a mark.
		while IFS= read -r -d '@' code; do
			[[ $code == *[a-z]* ]] || continue
			n=$((n + 1))
			code=${code#$'\n'} code=${code%$'\n'}
			(run_example "$c" "$code" "example.$n") >"out.$n" 2>&1 </dev/null || fail "$c: $code: $(<"out.$n")"
		done < <(cat examples; echo @)
	done
	((n >= 60)) || fail "only $n examples were found"
}
