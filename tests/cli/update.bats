#!/usr/bin/env bats
# broadcast --update: files of which all ranks have a copy are not sent.

# shellcheck disable=SC2016 # for the whole file: ranks expand their own variables
load helpers

# send ROOT-OUTPUT OPTION...: src/ of rank 0 to out.1/ and out.2/; stdout and stderr to said
send() {
	local own=$1
	shift
	collctl run -n 3 -- bash -c 'own=$1
		shift
		((COLLCTL_RANK)) && own=out.$COLLCTL_RANK/
		exec "$0" broadcast --insecure --no-sync --update "$@" src/ -o "$own"' "$COLLCTL" "$own" --raw-file "$@" >said 2>&1 || fail "$(<said)"
}

# assert_copies: names, contents, permissions and times of the copies are those of src
assert_copies() {
	local r
	for r in 1 2; do
		diff -r src "out.$r" || fail "out.$r"
		assert_equal "$(cd "out.$r" && find . -type f -printf '%P %m %s %T@\n' | sort)" "$(cd src && find . -type f -printf '%P %m %s %T@\n' | sort)"
	done
}

make_folder() {
	local i
	mkdir -p src/a/b
	for i in 0 1 2 3 4 5 6 7 8 9; do
		head -c $((i * 1000)) /dev/urandom >"src/a/f$i"
	done
	chmod 750 src/a/f3
	echo x >src/a/b/g
	: >src/empty
}

inodes() { stat -c '%i %n' "$@"; }

# bats test_tags=smoke
@test "the second time nothing is sent; changes, losses, other sizes, permissions and times are, from a rank's copy too" {
	local before
	make_folder
	send src/
	assert_copies
	run ! grep -q 'not sent' said
	before=$(inodes out.1/a/* out.1/empty)
	send src/
	assert_copies
	grep -q '12 of 12 files are as the root.s: not sent' said
	assert_equal "$(inodes out.1/a/* out.1/empty)" "$before"
	echo more >>src/a/f4                  # longer
	cp -p src/a/f5 t && printf Z | dd of=src/a/f5 conv=notrunc status=none && touch -r t src/a/f5 && touch -d '2 days ago' src/a/f5
	touch -d yesterday src/a/f6           # only the time
	chmod 600 src/a/f7                    # only the permissions
	rm out.2/a/f8                         # lost on a rank
	echo own >out.1/a/f9                  # changed on a rank, which is newer
	echo new >src/a/b/h
	send src/
	grep -q '6 of 13 files, and .* of others are as the root.s: not sent' said
	assert_copies
	send src/
	grep -q '13 of 13 files are as' said
	send src/ --threads 2 --streams 2
	assert_copies
}

# sent BYTES: the vector had so many
sent() {
	grep -q "rank 0: broadcast of 3 ranks by .*: $1 of u8" said || fail "$(<said)"
}

@test "of a large file that has changed, pieces of 1 MiB are sent that a rank lacks; the others are copied" {
	mkdir src
	head -c 5243000 /dev/urandom >src/big # five pieces and 120 bytes
	head -c 3000000 /dev/urandom >src/other
	send src/
	assert_copies
	printf Z | dd of=src/big bs=1 seek=2500000 conv=notrunc status=none
	send src/
	sent '1.0 MiB'
	grep -q ', 7.9 MiB of files in pieces: 8 equal, 0 delta, 0 compressed, 1 raw$' said || fail "$(<said)"
	grep -q '1 of 2 files, and 4.0 MiB of others are as' said
	assert_copies
	echo more >>src/big # the last piece alone
	send src/
	sent '125 bytes'
	assert_copies
	head -c 2 /dev/urandom >>out.1/big # differs at the end
	printf Y | dd of=out.2/big bs=1 seek=1100000 conv=notrunc status=none
	send src/
	sent '1.0 MiB'
	assert_copies
	truncate -s 4000000 src/big # shorter: the old versions have all of it
	send src/
	sent '0 bytes'
	assert_copies
	truncate -s 100 out.1/big # an old version that has little
	send src/
	sent '3.8 MiB'
	assert_copies
	rm out.2/big
	touch -d yesterday src/big
	send src/ --memory 64K --streams 3
	sent '3.8 MiB'
	assert_copies
	printf X | dd of=src/big bs=1 seek=3999999 conv=notrunc status=none
	cp -p src/big t
	touch -r t out.1/big out.2/big
	send src/ --checksum --memory 64K
	sent '834.2 KiB'
	assert_copies
	: >src/big # empty
	send src/
	sent '0 bytes'
	assert_copies
	collctl run -n 2 -- bash -c 'exec "$0" broadcast --raw-file --update src/other -o "one.$COLLCTL_RANK"' "$COLLCTL"
	printf W | dd of=one.1 bs=1 seek=5 conv=notrunc status=none
	collctl run -n 2 -- bash -c 'exec "$0" broadcast --raw-file --update src/other -o "one.$COLLCTL_RANK"' "$COLLCTL" >said 2>&1
	grep -q '1.9 MiB of others' said
	cmp src/other one.1
	cmp src/other one.0
}

@test "a job that fails leaves the old files, and no part of the new ones" {
	mkdir src
	head -c 5243000 /dev/urandom >src/big
	send src/
	cp out.1/big old
	printf Z | dd of=src/big bs=1 seek=2500000 conv=notrunc status=none
	mkdir no
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && own=out.$COLLCTL_RANK/ || own=src/
		((COLLCTL_RANK < 2)) || { ulimit -f 3000; trap "" XFSZ; }
		exec "$0" broadcast --insecure --no-sync --raw-file --update src/ -o "$own"' "$COLLCTL"
	((status != 0))
	cmp out.1/big old
	cmp out.2/big old
	assert_equal "$(find out.1 out.2 -type f | sort)" $'out.1/big\nout.2/big'
}

@test "a rank that has nothing, a root in another folder, an empty folder, other files of the rank's stay" {
	make_folder
	send src/
	rm -r out.2
	echo keep >out.1/mine
	send src/
	run ! grep -q 'not sent' said
	rm out.1/mine
	assert_copies
	send copy/
	assert_equal "$(cd copy && find . -type f -printf '%P %m %s %T@\n' | sort)" "$(cd src && find . -type f -printf '%P %m %s %T@\n' | sort)"
	send copy/
	grep -q '12 of 12 files' said
	rm -r src && mkdir src
	send src/
	run ! grep -q 'not sent' said
}

@test "--checksum: contents are compared, and times are not" {
	make_folder
	printf A | dd of=src/a/f5 bs=1 seek=77 conv=notrunc status=none
	send src/
	touch src/a/*
	send src/ --checksum
	grep -q '12 of 12 files' said
	# The same size and time, but another content: only --checksum sees that.
	cp -p src/a/f5 t
	printf Z | dd of=out.1/a/f5 bs=1 seek=77 conv=notrunc status=none
	touch -r src/a/f5 out.1/a/f5
	touch -r src/a/f5 out.2/a/f5
	send src/ --checksum
	grep -q '11 of 12 files' said
	cmp src/a/f5 out.1/a/f5
	send src/ --checksum
	grep -q '12 of 12 files' said
	send src/ # the times of files that were left differ
	grep -q '[1-9] of 12 files' said
	assert_copies
}

# clock: a library under which the clock is 1,000 s ahead and, with NO_READ=1, files of 3,000,000 bytes cannot be read
clock() {
	"${CC:-cc}" -std=c17 -D_GNU_SOURCE -shared -fPIC -o clock.so -xc - <<-'END' || fail 'no compiler'
		#include <errno.h>
		#include <stdlib.h>
		#include <sys/stat.h>
		#include <sys/syscall.h>
		#include <time.h>
		#include <unistd.h>
		int clock_gettime(clockid_t clock, struct timespec *ts)
		{
			const int ret = (int)syscall(SYS_clock_gettime, clock, ts);
			if (clock == CLOCK_REALTIME)
				ts->tv_sec += 1000;
			return ret;
		}
		ssize_t pread64(int fd, void *buf, size_t n, off_t at)
		{
			struct stat st;
			if (getenv("NO_READ") && fstat(fd, &st) == 0 && st.st_size == 3000000) {
				errno = EIO;
				return -1;
			}
			return syscall(SYS_pread64, fd, buf, n, at);
		}
		ssize_t pread(int fd, void *buf, size_t n, off_t at) { return pread64(fd, buf, n, at); }
	END
}

@test "--checksum: digests of files that have not changed are those of an earlier job; a table that lies changes nothing" {
	no_sanitizers 'they do not work under LD_PRELOAD'
	ldd "$COLLCTL" >/dev/null 2>&1 || skip 'a static program takes no LD_PRELOAD'
	clock
	local how
	local -x table=$XDG_CACHE_HOME/collctl/digests # for eval
	again() { # OPTION...
		collctl run -n 2 -- env LD_PRELOAD="$PWD/clock.so" bash -c '((COLLCTL_RANK)) && o=copy || o=src
			exec "$0" broadcast -v --insecure --no-sync --raw-file --update --checksum "$@" src -o "$o"' "$COLLCTL" "$@" >said 2>&1
	}
	head -c 3000000 /dev/urandom >src
	again || fail "$(<said)"
	again || fail "$(<said)" # the copy is entered, too
	NO_READ=1 again || fail "$(<said)"
	[[ $(grep -c 'the digests of 2.9 MiB are an earlier job.s' said) == 2 ]] || fail "$(<said)"
	grep -q '1 of 1 files are as the root.s' said
	NO_READ=1 again --no-digest-cache && fail "$(<said)"
	printf Z | dd of=copy bs=1 seek=1500000 conv=notrunc status=none
	again || fail "$(<said)"
	grep -q '0 of 1 files, and 1.9 MiB of others' said || fail "$(<said)"
	cmp src copy
	# Tables of all kinds.
	for how in 'cp src "$table"' 'truncate -s 100 "$table"' 'truncate -s 1G "$table"' 'yes | head -c 70000000 >"$table"' 'rm "$table"; ln -s "$PWD/victim" "$table"' \
		'rm "$table"; mkdir "$table"' 'rmdir "$table"; mkfifo "$table"' 'rm -r "${table%/*}"; : >"${table%/*}"'; do
		eval "$how"
		printf Y | dd of=copy bs=1 seek=1500000 conv=notrunc status=none
		touch -r src copy
		again || fail "$how: $(<said)"
		cmp src copy
	done
	[[ ! -e victim ]]
}

@test "the same size and time, and another content: left as it is without --checksum, as the manual says" {
	make_folder
	send src/
	printf Z | dd of=out.1/a/f5 bs=1 seek=77 conv=notrunc status=none
	touch -r src/a/f5 out.1/a/f5
	send src/
	grep -q '12 of 12 files' said
	run ! cmp -s src/a/f5 out.1/a/f5
}

@test "one file, several files, another root, checkpoints, several copies, two ranks that name one folder" {
	make_folder
	py <<<'save_safetensors("m.safetensors", {"w": np.ones(1000, "f4")})'
	for _ in 1 2; do
		collctl run -n 2 -- bash -c '((COLLCTL_RANK == 1)) && o=src/a/f9 || o=one; exec "$0" broadcast --raw-file --update --root 1 src/a/f9 -o "$o"' "$COLLCTL" >said 2>&1
		cmp one src/a/f9
	done
	grep -q '1 of 1 files are as' said
	for _ in 1 2; do
		collctl run -n 2 -- broadcast --update m.safetensors -o 'm.{rank}.safetensors' >said 2>&1
		cmp m.safetensors m.1.safetensors
	done
	grep -q '1 of 1 files are as' said
	for _ in 1 2; do
		collctl run -n 3 -- broadcast --raw-file --update src/ -o both/ >said 2>&1
		diff -r src both
	done
	grep -q '12 of 12 files are as' said
}

@test "a link or a folder where a file should be is never taken for the file; no link leads outside" {
	make_folder
	send src/
	mv out.1/a/f5 elsewhere
	ln -s "$PWD/elsewhere" out.1/a/f5
	cp elsewhere before
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && o=out.$COLLCTL_RANK/ || o=src/; exec "$0" broadcast --raw-file --update src/ -o "$o"' "$COLLCTL"
	[[ $output != *'12 of 12'* ]]
	cmp elsewhere before
	((status == 4)) || { [[ ! -L out.1/a/f5 ]] && cmp src/a/f5 out.1/a/f5; }
	rm -rf out.1/a/f5
	mkdir out.1/a/f5
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && o=out.$COLLCTL_RANK/ || o=src/; exec "$0" broadcast --raw-file --update src/ -o "$o"' "$COLLCTL"
	((status == 4))
	[[ -d out.1/a/f5 && $output == *f5* ]]
	# With --force an output that is a link is the file that it points to, and its old version, too.
	ln -s one link
	cp src/a/f9 one
	collctl run -n 2 -- broadcast --raw-file --update --force src/a/f9 -o link >/dev/null
	collctl run -n 2 -- broadcast --raw-file --update --force src/a/f9 -o link >said 2>&1
	grep -q '1 of 1 files are as' said
	[[ -L link ]]
	run ! collctl run -n 2 -- broadcast --raw-file --update src/a/f9 -o link
	cmp src/a/f9 one
}

@test "a dry run says what would be sent, and changes nothing; --json has the numbers" {
	make_folder
	send src/
	echo more >>src/a/f4
	send src/ --dry-run
	grep -q '11 of 12 files are as' said
	grep -q 'would replace out.1/a/f4' said
	run ! grep -q 'out.1/a/f5' said
	run ! cmp -s src/a/f4 out.1/a/f4
	collctl run -n 2 -- bash -c '((COLLCTL_RANK)) && o=out.1/ || o=src/; exec "$0" broadcast --raw-file --update --json src/ -o "$o"' "$COLLCTL" >json
	grep '"rank": *0' json | head -1 | sed 's/^\[0\] //' | jq -e '.equal_files == 11 and .digest == null' || fail "$(<json)"
}

# between_hosts OPTION...: src/ of rank 0 to out.1/ and out.2/, each on a host of its own
between_hosts() {
	collctl run -n 3 -- bash -c 'export COLLCTL_HOST_ID=host$COLLCTL_RANK
		((COLLCTL_RANK)) && own=out.$COLLCTL_RANK/ || own=src/
		exec "$0" broadcast --insecure --no-sync --raw-file --update --json "$@" src/ -o "$own"' "$COLLCTL" "$@" >json 2>said || fail "$(<said)"
}

# of_root FILTER: of the result of rank 0
of_root() {
	sed 's/^\[[0-9]\] //' json | jq -se "map(select(.rank == 0))[0] | $1" || fail "$(<json)"
}

@test "over a slow network, whose rate is known, what is sent is compressed where that saves; else it is not" {
	mkdir -p src/a
	seq 1 200000 >src/a/text # 1.3 MB
	head -c 1200000 /dev/urandom >src/noise
	: >src/empty
	between_hosts # no rate is known
	of_root '.plain_bytes == null'
	assert_copies
	rm -r out.1 out.2
	between_hosts --link-rate 1Mbit
	grep -q 'MiB of files are sent as .* that are compressed' said || fail "$(<said)"
	of_root '.content_bytes == 2488895 and .pieces.equal == 0 and .pieces.delta == 0 and .pieces.compressed == 2 and .pieces.raw == 2'
	of_root '.plain_bytes > 2400000 and .bytes < 2000000 and .bytes > 1200000'
	assert_copies
	between_hosts --link-rate 1Mbit
	of_root '.equal_files == 3 and .bytes == 0 and .pieces == {equal: 4, delta: 0, compressed: 0, raw: 0}'
	rm -r out.2 # a piece that a rank lacks, and one that all lack
	head -c 1100000 out.1/a/text >t
	seq 1 100000 >>t
	mv t src/a/text
	between_hosts --link-rate 1Mbit --threads 3 --memory 1M
	assert_copies
	of_root '.plain_bytes > 2400000'
	seq 1 300000 >src/a/text
	between_hosts --link-rate 400Gbit # a fast one
	of_root '.plain_bytes == null'
	assert_copies
	head -c 1500000 /dev/urandom >src/noise # saves nothing
	between_hosts --link-rate 1Mbit
	of_root '.plain_bytes == null'
	assert_copies
	seq 1 320000 >src/a/text
	between_hosts --link-rate 1Mbit --dry-run
	of_root '.plain_bytes == null and .pieces == null and .content_bytes > 3000000'
	TMPDIR=$PWD/none between_hosts --link-rate 1Mbit # no room
	of_root '.plain_bytes == null'
	assert_copies
}

# ---- --delta ----

# versions DTYPE: OLD and src, weights of which some have changed a little
versions() {
	"$PYTHON" - "$1" <<-'END'
		import sys, numpy as np
		r = np.random.default_rng(4)
		old = (r.normal(size=700000) * 0.02).astype(sys.argv[1])
		new = old.copy()
		i = r.random(len(new)) < 0.02
		new[i] += (r.normal(size=i.sum()) * 1e-4).astype(sys.argv[1])
		old.tofile("OLD"); new.tofile("src")
	END
}

# delta OUT0 OPTION...: src of rank 0, in three ranks whose outputs are OUT0, out.1, out.2
delta() {
	local own=$1
	shift
	collctl run -n 3 -- bash -c 'own=$1
		shift
		((COLLCTL_RANK)) && own=out.$COLLCTL_RANK
		exec "$0" broadcast --insecure --no-sync --raw-file --delta OLD "$@" src -o "$own"' "$COLLCTL" "$own" "$@" >said 2>&1 || fail "$(<said)"
}

# assert_differences MOST: the vector had some bytes, and at most so many
assert_differences() {
	grep -q ' are sent as ' said || fail "$(<said)"
	"$PYTHON" - "$1" <<-'END'
		import re, sys
		said = open("said").read()
		number, unit = re.search(r"broadcast of 3 ranks by \S+: ([\d.]+) (bytes|KiB|MiB) of u8", said).groups()
		assert float(number) * {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit] <= int(sys.argv[1]), said
	END
}

@test "--delta: differences to the old version, of any width of elements; the same bytes on all ranks" {
	local t
	for t in f2 f4 f8; do
		versions $t
		cp OLD out.1
		cp OLD out.2
		delta src --threads 3
		cmp src out.1
		cmp src out.2
		assert_differences $(($(stat -c %s src) / 16))
		delta src
		grep -q '1 of 1 files are as' said
	done
	cp OLD out.1
	cp OLD out.2
	cp OLD copy
	delta copy --lanes tcp --memory 64K --streams 3 --threads 2
	assert_differences $(($(stat -c %s src) / 16))
	cmp src copy
	cmp src out.1
	cmp src out.2
}

@test "--delta: a rank with another old version, or none, and an OLD that has less, cost a larger transfer, and no byte" {
	versions f4
	cp OLD out.1
	head -c 2000000 OLD >out.2
	delta src
	cmp src out.1
	cmp src out.2
	cp OLD out.1
	head -c 2800000 /dev/urandom >out.2
	delta src
	cmp src out.2
	cmp src out.1
	cp OLD out.1
	rm out.2
	delta src
	cmp src out.2
	cmp src out.1
	cp OLD out.1
	cp OLD out.2
	cp OLD whole
	head -c 1500000 whole >OLD
	delta src --checksum
	cmp src out.1
	cmp src out.2
	cp whole OLD
	cp OLD out.1
	cp OLD out.2
	head -c 1300000 /dev/urandom >>src # longer
	delta src
	cmp src out.1
	cmp src out.2
	cp OLD out.1
	cp OLD out.2
	head -c 1300001 whole >src # shorter, and its end is no element
	printf Z | dd of=src bs=1 seek=1300000 conv=notrunc status=none
	delta src
	cmp src out.1
	cmp src out.2
	: >src
	delta src
	cmp src out.1
}

@test "--delta: a rank without the old version gets a full transfer of its own; one that has the new one, or the old one, does not" {
	local r line options
	versions f4
	# rank 0 has another old version of one piece, 1 is the root, 2 has OLD, 3 nothing, 4 the new version
	for line in '' '--memory 64K --streams 3 --lanes tcp' '--threads 3 --algorithm ring'; do
		read -ra options <<<"$line"
		cp OLD out.0
		printf 'ZZZZ' | dd of=out.0 bs=1 seek=1500000 conv=notrunc status=none
		cp OLD out.2
		rm -f out.3
		cp src out.4
		collctl run -n 5 -- bash -c 'own=out.$COLLCTL_RANK
			((COLLCTL_RANK == 1)) && own=src
			exec "$0" broadcast --insecure --no-sync --json --raw-file --root 1 --delta OLD "$@" src -o "$own"' "$COLLCTL" "${options[@]}" >json 2>said || fail "$(<said)"
		for r in 0 2 3 4; do
			cmp src "out.$r"
		done
		grep -q 'ranks 0, 3 lack all or part of the root.s old version, and get 2.2 MiB of whole pieces' said || fail "$(<said)"
		sed 's/^\[[0-9]\] //' json | jq -se 'sort_by(.rank) | (map(.without_old.ranks == [0, 3]) | all) and
			.[2].bytes_received < 500000 and .[4].bytes_received < 500000 and .[3].bytes_received > 1400000 and
			.[0].without_old.bytes > 1400000' || fail "$(<json)"
	done
	# Nobody has it: there is one stream.
	rm out.*
	delta src
	cmp src out.1
	grep -q 'ranks 1, 2 lack' said || fail "$(<said)"
	# A difference that is no smaller is none.
	head -c 2800000 /dev/urandom >src
	cp OLD out.1
	rm out.2
	delta src
	cmp src out.1
	cmp src out.2
	grep -q 'rank 2 lacks all or part of the root.s old version: all ranks get whole' said || fail "$(<said)"
}

@test "--delta: a tensor is matched by its name, wherever it is; the widths are those of the types" {
	py <<-'END'
		r = np.random.default_rng(4)
		w = {"a": (r.normal(size=1500000) * 0.02).astype("f2"), "b": (r.normal(size=500001) * 0.02).astype("f4"),
		     "c": (r.normal(size=(300, 700)) * 0.02).astype("f8"), "d": r.integers(0, 255, 99993).astype("u1")}
		def step(a):
		    a = a.copy()
		    i = r.random(a.shape) < 0.02
		    a[i] += (r.normal(size=i.sum()) * 1e-4).astype(a.dtype)
		    return a
		v = {n: a if n == "d" else step(a) for n, a in w.items()}
		save_safetensors("OLD.safetensors", w)
		save_safetensors("moved.safetensors", w, {"step": "x" * 1000}, order="dcab")
		save_safetensors("step.safetensors", v, order="cbad")
		v["c"] = np.ascontiguousarray(v["c"].T) # another shape: a new tensor
		v["a"] = v["a"].astype("f4") # another type
		del v["d"]
		save_safetensors("other.safetensors", v)
		open("junk.safetensors", "wb").write(r.bytes(3000000))
	END
	local name most
	# 7.6 MB: the moves alone; differences of 2 %; two of four tensors anew
	for name in moved:2000 step:300000 other:6200000; do
		most=${name#*:} name=${name%:*}.safetensors
		cp OLD.safetensors out.1.safetensors
		# rank 2 has the tensors, but not in OLD's place; 3 has nothing
		cp moved.safetensors out.2.safetensors
		rm -f out.3.safetensors
		collctl run -n 4 -- bash -c 'own=out.$COLLCTL_RANK.safetensors
			((COLLCTL_RANK)) || own=$1
			exec "$0" broadcast --no-sync --json --delta OLD.safetensors --threads 2 "$1" -o "$own"' "$COLLCTL" "$name" >json 2>said || fail "$(<said)"
		cmp "$name" out.1.safetensors
		cmp "$name" out.2.safetensors
		cmp "$name" out.3.safetensors
		sed 's/^\[[0-9]\] //' json | jq -se --argjson most "$most" 'sort_by(.rank) | .[1].bytes_received < $most' || fail "$(<json)"
	done
	# Headers that say nothing: by the offsets.
	cp junk.safetensors new.safetensors
	printf 'ZZZZ' | dd of=new.safetensors bs=1 seek=1500000 conv=notrunc status=none
	cp junk.safetensors out.1
	collctl run -n 2 -- bash -c 'own=new.safetensors
		((COLLCTL_RANK)) && own=out.1
		exec "$0" broadcast --raw-file --no-sync --delta junk.safetensors new.safetensors -o "$own"' "$COLLCTL" >said 2>&1 || fail "$(<said)"
	cmp new.safetensors out.1
	# A header and no tensors of it; of folders each file by itself.
	mkdir -p v1/s v2/s
	cp OLD.safetensors v1/s/m.safetensors
	cp step.safetensors v2/s/m.safetensors
	head -c 2000000 OLD.safetensors >v1/cut.safetensors
	cp step.safetensors v2/cut.safetensors
	cp -r v1 out.1d
	collctl run -n 2 -- bash -c 'own=v2/
		((COLLCTL_RANK)) && own=out.1d/
		exec "$0" broadcast --raw-file --no-sync --delta v1 v2/ -o "$own"' "$COLLCTL" >said 2>&1 || fail "$(<said)"
	diff -r v2 out.1d
}

@test "--delta of folders, through a link, from another root, with new, lost and unchanged files" {
	versions f2
	mkdir -p v1/a v2/a
	mv OLD v1/a/w
	mv src v2/a/w
	cp v1/a/w v1/a/same
	cp -p v1/a/same v2/a/same
	echo old >v1/gone
	echo new >v2/new
	ln -s v1 OLD
	for n in 0 2; do
		cp -rp v1 "out.$n"
	done
	collctl run -n 3 -- bash -c '((COLLCTL_RANK == 1)) && o=v2/ || o=out.$COLLCTL_RANK/
		exec "$0" broadcast --no-sync --raw-file --root 1 --delta OLD/ v2/ -o "$o"' "$COLLCTL" >said 2>&1 || fail "$(<said)"
	grep -q '1 of 3 files are as the root.s' said
	assert_differences 100000
	for n in 0 2; do
		cmp v2/a/w "out.$n/a/w"
		cmp v2/a/same "out.$n/a/same"
		cmp v2/new "out.$n/new"
		cmp v1/gone "out.$n/gone"
	done
}

@test "--delta: checkpoints, a dry run, --json, a rank without libzstd" {
	py <<-'END'
		r = np.random.default_rng(4)
		w = (r.normal(size=(900, 700)) * 0.02).astype("f2")
		v = w.copy()
		v[r.random(w.shape) < 0.01] += np.float16(1e-4)
		save_safetensors("OLD.safetensors", {"w": w}); save_safetensors("m.safetensors", {"w": v})
	END
	cp OLD.safetensors out.1.safetensors
	collctl run -n 2 -- broadcast -q --delta OLD.safetensors --dry-run m.safetensors -o 'out.{rank}.safetensors'
	cmp OLD.safetensors out.1.safetensors
	cp OLD.safetensors out.0.safetensors
	collctl run -n 2 -- broadcast --json --delta OLD.safetensors m.safetensors -o 'out.{rank}.safetensors' >json
	grep '"rank": *0' json | head -1 | sed 's/^\[0\] //' | jq -e '.bytes < 100000 and .plain_bytes > 1200000' || fail "$(<json)"
	sed 's/^\[[0-9]\] //' json | jq -se 'all(.pieces == {equal: 0, delta: 2, compressed: 0, raw: 0} and .content_bytes > 1260000)' || fail "$(<json)"
	cmp m.safetensors out.1.safetensors
	cmp m.safetensors out.0.safetensors
	unshare -m true 2>/dev/null || skip 'no mount namespaces here: libzstd cannot be hidden'
	local zstd
	zstd=$(ldconfig -p | sed -n 's/.*libzstd\.so\.1 .*=> //p' | head -1)
	[[ -n $zstd ]] || skip 'no libzstd.so.1 here that could be hidden'
	cp OLD.safetensors out.1.safetensors
	make_hostfile hosts 2
	make_secret
	spawn_rank 0 "$COLLCTL" broadcast --delta OLD.safetensors m.safetensors -o m.safetensors -H hosts -r 0 --secret-file "$SECRET"
	spawn_rank 1 unshare -m bash -c 'mount --bind /dev/null "$(readlink -f "$1")" && shift && "$1" version | grep "^libzstd *not usable" >&2 && exec "$@"' - "$zstd" \
		"$COLLCTL" broadcast --delta OLD.safetensors m.safetensors -o out.1.safetensors -H hosts -r 1 --secret-file "$SECRET"
	wait_ranks
	assert_ranks 2 0
	assert_rank 1 0 'not usable'
	cmp m.safetensors out.1.safetensors
}

@test "--delta: what cannot be is refused, and a failure leaves the old files" {
	versions f4
	cp OLD out.1
	cp OLD out.2
	refused 3 '--delta none: cannot examine the old version' 2 broadcast --raw-file --delta none src -o 'o.{rank}'
	mkdir folder
	refused 2 'is a folder: expected a file' 2 broadcast --raw-file --delta folder src -o 'o.{rank}'
	mkfifo pipe
	refused 3 'pipe: is not a regular file' 2 broadcast --raw-file --delta pipe src -o 'o.{rank}'
	refused 2 'is no folder: expected a folder' 2 broadcast --raw-file --delta OLD folder/ -o 'o.{rank}/'
	refused 2 '--delta' 2 broadcast --raw-file --delta OLD --delta OLD src -o 'o.{rank}'
	refused 2 '--delta' 2 broadcast --raw-file --delta '' src -o 'o.{rank}'
	refused 2 '--delta: compares whole files' 2 broadcast --delta OLD --include w src -o 'o.{rank}'
	refused 2 '--delta is not an option of allreduce' 2 allreduce --delta OLD src -o 'o.{rank}'
	run -7 collctl run -n 2 -- bash -c '((COLLCTL_RANK)) || set -- --delta OLD; exec "$0" broadcast --raw-file "$@" src -o "o.$COLLCTL_RANK"' "$COLLCTL"
	run collctl run -n 3 -- bash -c '((COLLCTL_RANK)) && own=out.$COLLCTL_RANK || own=src
		((COLLCTL_RANK < 2)) || { ulimit -f 1000; trap "" XFSZ; }
		exec "$0" broadcast --insecure --no-sync --raw-file --delta OLD src -o "$own"' "$COLLCTL"
	((status != 0))
	cmp OLD out.1
	cmp OLD out.2
	assert_equal "$(find . -name 'out.*' | sort)" $'./out.1\n./out.2'
}

@test "what has no meaning is refused; ranks must agree" {
	make_folder
	refused 2 '--checksum: needs --update or --delta' 2 broadcast --raw-file --checksum src/a/f1 -o 'o.{rank}'
	refused 2 '--update: compares whole files' 2 broadcast --update --include w src/a/f1 -o 'o.{rank}'
	py <<-'END'
		np.save("x.npy", np.ones(4)); save_safetensors("m.safetensors", {"a.w": np.ones(4), "v": np.ones(2)})
	END
	refused 2 'x.npy: --update compares whole files, and this one is broadcast as an array: give --raw-file' 2 broadcast --update x.npy -o 'y.{rank}.npy'
	refused 2 'x.npy: --delta compares whole files' 2 broadcast --delta x.npy x.npy -o 'y.{rank}.npy'
	refused 2 'm.safetensors: --update compares whole files' 2 broadcast --update --strip a. m.safetensors -o 'y.{rank}.safetensors'
	refused 2 '--resume is not an option of gather' 2 gather --raw-file --resume src/a/f1 -o 'o.{rank}'
	refused 2 '--update' 2 allreduce --update src/a/f1 -o 'o.{rank}'
	# shellcheck disable=SC2016
	run -7 collctl run -n 2 -- bash -c '((COLLCTL_RANK)) || set -- --update; exec "$0" broadcast --raw-file "$@" src/ -o "out.$COLLCTL_RANK/"' "$COLLCTL"
	collctl run -n 2 -- broadcast -q --raw-file --update --update src/a/f1 -o 'o.{rank}'
	cmp src/a/f1 o.1
}
