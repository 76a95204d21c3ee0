#!/usr/bin/env bats
# libcollctl used by other programs: installed, linked statically and dynamically, and called by ctypes.

load helpers

ck() { oracle checkpoint "$@"; }

setup() {
	common_setup
	no_sanitizers "a program without them cannot load the library"
	BUILT=$(dirname "$COLLCTL")
}

# installed: `make install` into $PWD/root; sets LIB, and PKG for pkg-config
installed() {
	local flags=()
	# Other flags than those of the build under test would compile it again, under the other tests.
	! grep -q -e -Werror "$BUILT/flags" || flags=(WERROR=1)
	make -s -C "$ROOT" BUILD="$BUILT" "${flags[@]}" install DESTDIR="$PWD/root" PREFIX=/usr >made
	[[ ! -s made ]] || fail "make install has made again: $(<made)"
	LIB=$PWD/root/usr/lib
	export PKG_CONFIG_PATH=$LIB/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD/root
}

# build_average [pkg-config and cc OPTIONS...]
build_average() {
	# shellcheck disable=SC2046 # the flags are words
	"${CC:-cc}" -Wall -Wextra -Werror -o average "$ROOT/examples/average.c" $(pkg-config --cflags --libs "$@" collctl)
}

# average_by COMMAND...: 4 ranks of COMMAND average 4 checkpoints
average_by() {
	local r
	ck make two 4
	start_serve
	make_secret
	for r in 0 1 2 3; do
		spawn_rank "$r" "$@" "$r" 4 "$STORE" "$SECRET" "in.$r.safetensors" "out.$r.safetensors"
	done
	wait_ranks
	assert_ranks 4 0
	ck check allreduce avg 4
}

@test "a program linked with the shared library averages a checkpoint" {
	installed
	build_average
	export LD_LIBRARY_PATH=$LIB
	average_by ./average
	[[ $(<0.out) == "0 of 4: "*" bytes by "* ]]
}

@test "a program linked with the static library averages a checkpoint" {
	installed
	rm "$LIB"/libcollctl.so*
	build_average --static
	average_by ./average
}

@test "a Python program averages a checkpoint by ctypes" {
	installed
	export COLLCTL_LIBRARY=$LIB/libcollctl.so.0
	average_by "$PYTHON" "$ROOT/examples/average.py"
}

@test "only the names of collctl.h are visible" {
	local file
	for file in "$BUILT/libcollctl.so.0" "$BUILT/libcollctl.a"; do
		[[ $file == *.so.0 ]] && nm -D --defined-only "$file" >names || nm -g --defined-only "$file" >names
		run ! grep -E ' [A-Za-z] ' <(grep -vE ' [A-Z] (collctl_[a-z_]+|COLLCTL_0)(@@COLLCTL_0)?$' names)
		grep -q ' T collctl_run' names
	done
}

# run_steps CODE: a Python program that has the library as `lib` and a job as `job`
run_steps() {
	COLLCTL_LIBRARY=$BUILT/libcollctl.so.0 "$PYTHON" -c "
import ctypes, json, os, signal, sys, threading, time
lib = ctypes.CDLL(os.environ['COLLCTL_LIBRARY'])
for name in ('new', 'message', 'subject'):
    getattr(lib, 'collctl_' + name).restype = ctypes.c_void_p if name == 'new' else ctypes.c_char_p
for name in ('set', 'input', 'output'):
    getattr(lib, 'collctl_' + name).argtypes = [ctypes.c_void_p] + [ctypes.c_char_p] * (2 if name == 'set' else 1)
for name in ('message', 'subject', 'culprit', 'code', 'run', 'cancel', 'free', 'rank'):
    getattr(lib, 'collctl_' + name).argtypes = [ctypes.c_void_p]
job = lib.collctl_new(b'allreduce')
$1"
}

@test "errors carry a code, a message and its subject: a setting or a file" {
	run run_steps "
assert lib.collctl_set(job, b'op', b'sun') == 2 and lib.collctl_subject(job) == b'op'
print(lib.collctl_message(job).decode())
assert lib.collctl_set(job, b'device', b'cuda:0,0') == 2 and lib.collctl_subject(job) == b'device'
print(lib.collctl_message(job).decode())
assert lib.collctl_set(job, b'device', b'cpu') == 0
assert lib.collctl_set(job, b'colour', b'red') == 2
print(lib.collctl_message(job).decode())
assert lib.collctl_set(job, b'rank', b'0') == 0 and lib.collctl_set(job, b'size', b'1') == 0
assert lib.collctl_set(job, b'insecure', b'1') == 0
assert lib.collctl_input(job, b'none.npy') == 0 and lib.collctl_output(job, b'out.npy') == 0
assert lib.collctl_run(job) == 3 and lib.collctl_code(job) == 3
assert lib.collctl_subject(job) == b'none.npy' and lib.collctl_culprit(job) == 0
print(lib.collctl_message(job).decode())
assert lib.collctl_run(job) == 2
for command, setting, value in (('broadcast', 'op', 'avg'), ('gather', 'weight', '2'), ('allreduce', 'raw-file', '1'),
                                ('allgather', 'counts', '1,2'), ('barrier', 'output', 'x'), ('allreduce', 'root', '0')):
    other = lib.collctl_new(command.encode())
    assert lib.collctl_set(other, setting.encode(), value.encode()) == 2, (command, setting)
    assert lib.collctl_message(other).decode() == f'{setting}: {command} does not take it'
    assert lib.collctl_subject(other).decode() == setting
other = lib.collctl_new(b'barrier')
assert lib.collctl_input(other, b'in.npy') == 2 and lib.collctl_subject(other) == b'in.npy'
other = lib.collctl_new(b'allreduce')
for setting, value in ((b'rank', b'4'), (b'size', b'4'), (b'insecure', b'1'), (b'output', b'out.npy'),
                       (b'rendezvous', b'http://127.0.0.1:1')):
    assert lib.collctl_set(other, setting, value) == 0
assert lib.collctl_input(other, b'in.npy') == 0 and lib.collctl_run(other) == 2
assert lib.collctl_message(other) == b'--rank 4: a job of 4 ranks has ranks 0 to 3', lib.collctl_message(other)
assert lib.collctl_subject(other) == b'rank', lib.collctl_subject(other)
assert lib.collctl_new(b'serve') is None"
	assert_success
	assert_line --partial "op: 'sun' is not one of sum, prod,"
	assert_line "device: 'cuda:0,0' lists device 0 twice"
	assert_line --partial "colour: there is no such setting"
	assert_line --partial "none.npy"
}

@test "the subject of an error that another rank found" {
	start_serve
	spawn_rank 0 "$COLLCTL" barrier --rank 0 --size 2 --rendezvous "$STORE" --insecure --join-timeout 5s
	run run_steps "
other = lib.collctl_new(b'barrier')
for name, value in (('rank', '1'), ('size', '3'), ('rendezvous', '$STORE'), ('insecure', '1')):
    assert lib.collctl_set(other, name.encode(), value.encode()) == 0
code = lib.collctl_run(other)
print(code, lib.collctl_message(other).decode())
assert code == 7 and lib.collctl_subject(other) == b'size', lib.collctl_subject(other)"
	assert_success
	assert_output --partial "--size 3 differs from 2"
	wait_ranks
}

@test "the subject of a disagreement between files is the file that differs" {
	start_serve
	make_shard in.0.npy f32 4 1
	make_shard in.1.npy f32 5 2
	make_shard in.2.npy f32 4 3
	spawn_rank 0 "$COLLCTL" allreduce -r 0 -n 3 -R "$STORE" --insecure in.0.npy -o out.0.npy
	spawn_rank 1 "$COLLCTL" allreduce -r 1 -n 3 -R "$STORE" --insecure in.1.npy -o out.1.npy
	run run_steps "
other = lib.collctl_new(b'allreduce')
for name, value in (('rank', '2'), ('size', '3'), ('rendezvous', '$STORE'), ('insecure', '1'), ('output', 'out.2.npy')):
    assert lib.collctl_set(other, name.encode(), value.encode()) == 0
assert lib.collctl_input(other, b'in.2.npy') == 0
code = lib.collctl_run(other)
print(code, lib.collctl_message(other).decode())
assert code == 7 and lib.collctl_culprit(other) == 1
assert lib.collctl_subject(other) == b'in.1.npy', lib.collctl_subject(other)"
	assert_success
	wait_ranks
}

@test "a program's mistakes are errors: no name, no path, a job that has run" {
	run run_steps "
assert lib.collctl_new(None) is None
assert lib.collctl_set(job, None, b'1') == 2 and lib.collctl_set(job, b'op', None) == 2
assert lib.collctl_input(job, None) == 2 and lib.collctl_output(job, None) == 2
assert lib.collctl_run(job) != 0
other = lib.collctl_new(b'verify')
for name, value in (('rank', '0'), ('size', '1'), ('insecure', '1')):
    assert lib.collctl_set(other, name.encode(), value.encode()) == 0
assert lib.collctl_run(other) == 2 and lib.collctl_subject(other) == b'verify', lib.collctl_message(other)
lib.collctl_free(other)
for call in (lambda: lib.collctl_run(job), lambda: lib.collctl_input(job, b'in.npy'),
             lambda: lib.collctl_set(job, b'op', b'sum'), lambda: lib.collctl_output(job, b'out.npy')):
    assert call() == 2 and b'the job has run already' in lib.collctl_message(job), lib.collctl_message(job)
lib.collctl_free(job)
lib.collctl_free(None)"
	assert_success
}

@test "arrays in memory: the result, and a program's mistakes" {
	run run_steps "
u64 = ctypes.c_uint64
for name, types in (('input_memory', [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(u64), ctypes.c_int]),
                    ('output_memory', [ctypes.c_void_p, ctypes.c_char_p, u64, ctypes.c_uint]), ('output_kept', []),
                    ('result', [ctypes.c_uint] + [ctypes.POINTER(t) for t in (ctypes.c_void_p, u64, ctypes.c_char_p,
                                                                              ctypes.POINTER(u64), ctypes.c_int)])):
    getattr(lib, 'collctl_' + name).argtypes = [ctypes.c_void_p] + types
data = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
shape = (u64 * 65)(2, 3)
huge = (u64 * 2)(1 << 40, 1 << 40)
for array in ((data, None, shape, 2), (data, b'f33', shape, 2), (data, b'i128', shape, 2), (data, b'f32', shape, 65),
              (data, b'f32', shape, -1), (data, b'f32', None, 1), (data, b'f32', huge, 2), (None, b'f32', shape, 2)):
    assert lib.collctl_input_memory(job, *array) == 2, array
    assert lib.collctl_message(job), array
out = ctypes.c_void_p(), u64(), ctypes.c_char_p(), ctypes.POINTER(u64)(), ctypes.c_int()
assert lib.collctl_output_memory(job, data, b'f33', 24, 0) == 2 and lib.collctl_output_kept(job) == 0
assert lib.collctl_output_kept(job) == 2 and lib.collctl_output_memory(job, data, b'f32', 24, 0) == 2
assert lib.collctl_result(job, 0, *out) == 2
for name, value in (('rank', '0'), ('size', '1'), ('insecure', '1')):
    assert lib.collctl_set(job, name.encode(), value.encode()) == 0
assert lib.collctl_input_memory(job, data, b'f32', shape, 2) == 0 and lib.collctl_input_memory(job, data, b'f32', shape, 2) == 0
data[0] = 100 # it is read in its place, while the job runs
assert lib.collctl_run(job) == 0, lib.collctl_message(job)
assert lib.collctl_result(job, 1, *out) == 2 and lib.collctl_result(job, 0, *out) == 0
assert (out[1].value, out[2].value, out[3][:2], out[4].value) == (24, b'f32', [2, 3], 2)
assert list((ctypes.c_float * 6).from_address(out[0].value)) == [200, 4, 6, 8, 10, 12]
assert lib.collctl_input_memory(job, data, b'f32', shape, 2) == 2 and lib.collctl_output_kept(job) == 2
lib.collctl_free(job)

def alone(inputs, target, flags, **settings):
    job = lib.collctl_new(b'allreduce')
    for name, value in dict(rank='0', size='1', insecure='1', **settings).items():
        assert lib.collctl_set(job, name.encode(), value.encode()) == 0
    for i in inputs:
        assert lib.collctl_input_memory(job, i, b'f32', shape, 2) == 0
    assert lib.collctl_output_memory(job, target, b'f32', 24, flags) == 0
    code = lib.collctl_run(job)
    if not code:
        assert lib.collctl_result(job, 0, *out) == 0 and out[0].value == ctypes.addressof(target), target
        assert out[1].value == 24 and json.loads(lib.collctl_json(job))['bytes'] == 24
    lib.collctl_free(job)
    return code

lib.collctl_json.argtypes, lib.collctl_json.restype = [ctypes.c_void_p], ctypes.c_char_p
make = lambda: (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
for flags in (0, 1): # into another array, into an input, and into a part of one
    target, other, ends = (ctypes.c_float * 6)(), make(), (ctypes.c_float * 8)(*range(8))
    assert alone([make(), other], target, flags) == 0 and list(target) == [2, 4, 6, 8, 10, 12]
    assert list(other) == [1, 2, 3, 4, 5, 6]
    assert alone([make(), other], other, flags) == 0 and list(other) == [2, 4, 6, 8, 10, 12]
    begin = (ctypes.c_float * 6).from_buffer(ends)
    end = (ctypes.c_float * 6).from_buffer(ends, 8)
    assert alone([begin, begin], end, flags) == 0 and list(ends) == [0, 1, 0, 2, 4, 6, 8, 10]
    kept = make() # no job began that could write to it
    assert alone([make(), make()], kept, flags, weight='1,2,3') == 2 and list(kept) == [1, 2, 3, 4, 5, 6]
empty = lib.collctl_new(b'broadcast')
for name, value in (('rank', '0'), ('size', '1'), ('insecure', '1')):
    assert lib.collctl_set(empty, name.encode(), value.encode()) == 0
nothing = (u64 * 3)(1 << 32, 1 << 32, 0)
assert lib.collctl_input_memory(empty, None, b'f32', nothing, 3) == 0 and lib.collctl_output_kept(empty) == 0
assert lib.collctl_run(empty) == 0, lib.collctl_message(empty)
assert lib.collctl_result(empty, 0, *out) == 0 and (out[1].value, out[3][:3]) == (0, [1 << 32, 1 << 32, 0])
lib.collctl_free(empty)

for third in 3, 4: # arrays as files
    verify = lib.collctl_new(b'verify')
    for name, value in (('rank', '0'), ('size', '1'), ('insecure', '1')):
        assert lib.collctl_set(verify, name.encode(), value.encode()) == 0
    one, two = make(), (ctypes.c_float * 6)(1, 2, third, 4, 5, 6)
    assert lib.collctl_input_memory(verify, one, b'f32', shape, 2) == lib.collctl_input_memory(verify, two, b'f32', shape, 2) == 0
    assert lib.collctl_run(verify) == (0 if third == 3 else 7), lib.collctl_message(verify)
    lib.collctl_free(verify)

raw = lib.collctl_new(b'allreduce') # as raw elements its head would be data
six = make()
for name, value in (('rank', '0'), ('size', '1'), ('insecure', '1'), ('output', 'raw.bin')):
    assert lib.collctl_set(raw, name.encode(), value.encode()) == 0
assert lib.collctl_input_memory(raw, six, b'f32', shape, 2) == 0
for name, value in (('format', 'raw'), ('dtype', 'f32')):
    assert lib.collctl_set(raw, name.encode(), value.encode()) == 0
assert lib.collctl_run(raw) == 2 and not os.path.exists('raw.bin')
assert lib.collctl_message(raw) == b'format: arrays in memory go with .npy files, not raw', lib.collctl_message(raw)
lib.collctl_free(raw)"
	assert_success
}

@test "an array in memory that is compared with old files of its size: its elements are, too" {
	start_serve
	make_secret
	run run_steps "
from pathlib import Path
lib.collctl_input_memory.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int]
six, shape = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6), (ctypes.c_uint64 * 1)(6)
codes = {}
def rank(r, name, settings):
    job = lib.collctl_new(b'broadcast')
    for setting in dict(rank=r, size=2, rendezvous='$STORE', job=name, each=1, output=f'{r}/', **settings, **{'secret-file': '$SECRET'}).items():
        assert lib.collctl_set(job, *(str(text).encode() for text in setting)) == 0, setting
    if r == 0:
        assert lib.collctl_input_memory(job, six, b'f32', shape, 1) == 0
    codes[r] = lib.collctl_run(job), lib.collctl_message(job)
    lib.collctl_free(job)
for name, settings in ('first', {}), ('update', dict(update=1)), ('checksum', dict(update=1, checksum=1)):
    threads = [threading.Thread(target=rank, args=(r, name, settings)) for r in (0, 1)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert codes == {0: (0, b''), 1: (0, b'')}, codes
    for r in '0', '1':
        written = [f for f in Path(r).iterdir() if f.read_bytes()[-24:] == bytes(six)]
        assert len(written) == 1, (name, r, written)
        head = written[0].read_bytes()[:-24]
        for fd in range(100): # the array's file may get another descriptor, which gives the copy its name
            Path(r, str(fd)).write_bytes(head + bytes(24))"
	assert_success
}

@test "the ranks of jobs are threads of one process: every collective, over memory lanes and TLS at once" {
	"${CC:-cc}" -Wall -Wextra -Werror -I"$ROOT/lib" -o threads "$ROOT/tests/library/threads.c" \
		"$BUILT/libcollctl.so.0" -Wl,-rpath,"$BUILT" -pthread
	start_serve
	make_secret
	run ./threads "$STORE" "$SECRET"
	assert_success
	assert_output ""
}

@test "a job is cancelled where descriptor 0 is free" {
	start_serve
	run run_steps "
os.close(0)
other = lib.collctl_new(b'barrier')
for name, value in (('rank', '0'), ('size', '2'), ('rendezvous', '$STORE'), ('insecure', '1')):
    assert lib.collctl_set(other, name.encode(), value.encode()) == 0
threading.Timer(0.2, lambda: lib.collctl_cancel(other)).start()
assert lib.collctl_run(other) == 130, lib.collctl_message(other)"
	assert_success
}

@test "signals, environment and stdout stay the program's; a job can be cancelled" {
	start_serve
	export COLLCTL_SECRET=kept RANK=7 WORLD_SIZE=9
	run run_steps "
before = [signal.getsignal(s) for s in range(1, 65) if s not in (9, 19)]
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
for name, value in (('rank', '0'), ('size', '2'), ('rendezvous', '$STORE'), ('insecure', '1')):
    assert lib.collctl_set(job, name.encode(), value.encode()) == 0, lib.collctl_message(job)
open('in.bin', 'wb').write(bytes(64))
lib.collctl_set(job, b'dtype', b'f32'); lib.collctl_set(job, b'format', b'raw')
lib.collctl_input(job, b'in.bin'); lib.collctl_output(job, b'out.bin')
lib.collctl_cancel(job)
assert lib.collctl_run(job) == 130, lib.collctl_message(job)
assert not os.path.exists('out.bin')
assert before == [signal.getsignal(s) for s in range(1, 65) if s not in (9, 19)]
assert blocked == signal.pthread_sigmask(signal.SIG_BLOCK, [])
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
assert libc.getenv(b'COLLCTL_SECRET') == b'kept'
assert libc.prctl(3, 0, 0, 0, 0) == 1  # PR_GET_DUMPABLE
print(lib.collctl_message(job).decode())"
	assert_success
	assert_output "cancelled"
}
