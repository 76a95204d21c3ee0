#!/usr/bin/env bats
# The package of Python, from the sources and from a wheel.

load helpers

setup() {
	common_setup
	no_sanitizers "a program without them cannot load the library"
	BUILT=$(dirname "$COLLCTL")
	export COLLCTL
}

@test "the tests of the package" {
	"$PYTHON" -c 'import pytest' 2>/dev/null || skip 'no pytest (python3-pytest)'
	export COLLCTL_LIBRARY=$BUILT/libcollctl.so.0 PYTHONPATH=$ROOT/python PYTHONDONTWRITEBYTECODE=1
	PATH=$BUILT:$PATH "$PYTHON" -m pytest -q -p no:cacheprovider --basetemp="$PWD/pytest" "$ROOT/tests/python" >log 2>&1 || fail "$(<log)"
}

# install_wheel WHEEL: into the new environment env
install_wheel() {
	"$PYTHON" -m venv env >log 2>&1 || skip "no virtual environment can be made (python3-venv): $(tail -n 1 log)"
	env/bin/python -m pip install --quiet --disable-pip-version-check --no-index "$1"
}

# use_wheel: the program and the package of env do a job, and the package finds its program and its library
use_wheel() {
	PATH=/usr/bin:/bin
	run -0 --separate-stderr env/bin/collctl version --json
	jq -e .ok <<<"$output"
	assert_equal "$(env/bin/python -m collctl --version)" "collctl $(env/bin/python -c 'import collctl; print(collctl.__version__)')"
	cat >rank.py <<-'EOT'
		import os, collctl
		r = os.environ["COLLCTL_RANK"]
		with open(f"in.{r}.raw", "wb") as f:
		    f.write(bytes([1, 2, 3, int(r)]))
		collctl.allreduce(f"in.{r}.raw", f"out.{r}.raw", dtype="u8")
		assert collctl.info(f"out.{r}.raw", dtype="u8").count == 4
		assert os.path.realpath(collctl.program()) == os.path.realpath("env/bin/collctl"), collctl.program()
		assert "env/lib" in collctl._library.library._name
	EOT
	env/bin/collctl run -n 2 -- env/bin/python rank.py
	assert_equal "$(od -An -tu1 out.1.raw | xargs)" '2 4 6 1'
}

@test "a wheel of this build: the same bytes each time; pip installs its program and package" {
	local wheel pack
	mkdir one two
	strip -o collctl "$COLLCTL"
	strip -o libcollctl.so.0 "$BUILT/libcollctl.so.0"
	pack=("$PYTHON" -B "$ROOT/python/wheel.py" --version 0.1.0)
	wheel=$("${pack[@]}" --output one --local collctl libcollctl.so.0)
	"${pack[@]}" --output two --local collctl libcollctl.so.0
	cmp one/*.whl two/*.whl
	assert_equal "$wheel" "one/collctl-0.1.0-py3-none-linux_$(uname -m).whl"
	run -1 "${pack[@]}" --output two collctl libcollctl.so.0
	assert_output --regexp 'other machines may lack.*libcrypto.so.3'
	install_wheel "$wheel"
	use_wheel
}
# licences WHEEL: the names of the licences in it
licences() { "$PYTHON" -m zipfile -l "$1" | sed -n 's,^[^ ]*/licenses/\([^ ]*\) .*,\1,p'; }
@test "a wheel has the licence of each archive that it contains, or is not made" {
	local pack=("$PYTHON" -B "$ROOT/python/wheel.py" --version 0.1.0 --output . --local --own own)
	strip -o collctl "$COLLCTL"
	strip -o libcollctl.so.0 "$BUILT/libcollctl.so.0"
	mkdir -p deps/lib deps/licenses own other
	touch deps/lib/libone.a own/libown.a other/libtwo.a
	echo 'Apache, in /usr/share/common-licenses/Apache-2.0.' >deps/licenses/one
	ln -s one deps/licenses/libone.a
	printf '%s\n' "Archive member included" "$PWD/deps/lib/libone.a(x.o)" "                  own/libown.a(y.o) (x)" "own/libown.a(y.o)" \
		"/usr/lib/gcc/libgcc.a(z.o)" >one.map
	run -0 --separate-stderr "${pack[@]}" --map one.map collctl libcollctl.so.0
	assert_equal "$(licences "$output" | xargs)" 'common-licenses/Apache-2.0 one'
	echo "$PWD/other/libtwo.a(z.o)" >two.map
	run -1 "${pack[@]}" --map one.map --map two.map collctl libcollctl.so.0
	assert_output --partial 'other/libtwo.a: no licence is known'
}

@test "make wheel: everything but glibc is inside, and no other symbol is visible" {
	((LONG)) || skip 'COLLCTL_LONG=1 builds the wheel'
	[[ $COLLCTL == "$ROOT"/* ]] || skip "$COLLCTL was not built here"
	env -u MAKEFLAGS make -s -C "$ROOT" BUILD="$PWD/build" NVCC= wheel >log 2>&1 || fail "$(tail -n 30 log)"
	[[ $(basename build/wheel/*.whl) =~ ^collctl-[0-9.]+-py3-none-manylinux_2_[0-9]+_$(uname -m).whl$ ]]
	nm -D --defined-only build/wheel/build/libcollctl.so.0 | grep -vE ' [A-Z] (collctl_[a-z_]+|COLLCTL_0)(@@COLLCTL_0)?$' >names || true
	assert_equal "$(<names)" ''
	run -0 licences build/wheel/*.whl
	for name in curl jansson libmicrohttpd libssl-dev libzip libzstd-dev xxhash zlib1g-dev common-licenses/Apache-2.0; do assert_line "$name"; done
	grep -hoE '^[^ ]+\.a\(' build/wheel/build/*.map | grep -vE '/(libgcc(_eh)?|libc_nonshared)\.a|^build/wheel/build/' | sed 's,.*/,,' | sort -u >archives
	(($(wc -l <archives) - 1 == $(grep -vc / <<<"$output"))) # libssl and libcrypto have one
	install_wheel build/wheel/*.whl
	use_wheel
	assert_equal "$(env/bin/collctl version --json | jq -c .build.lacks)" '["serve over HTTPS"]'
	assert_equal "$(env/bin/collctl version --json | jq -c '[.libraries[] | select(. == null)]')" '[]'
}
