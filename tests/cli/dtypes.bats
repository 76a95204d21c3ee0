#!/usr/bin/env bats
# Types that reductions.bats does not cover: bool, complex, 8-bit floats; logical operations; raw
# files, big-endian ones. The oracle is dtypes.py.

load helpers

OPS=(sum prod min max avg band bor bxor land lor lxor)

dt() { oracle dtypes "$@"; }

hint() { # what .npy can't say of dtype $1
	case $1 in bf16 | f8*) echo "--dtype=$1" ;; esac
}

has() { # is operation $1 defined on dtype $2?
	case $1:$2 in
	avg:*f* | avg:c*) true ;;
	avg:*) false ;;
	sum:* | prod:*) true ;;
	*:c*) false ;;
	b*:*f* | l*:*f*) false ;;
	esac
}

# over KIND DTYPE P OPS [OPTION...]: these operations over in.R.npy; OPTIONs are the oracle's
over() {
	local op kind=$1 d=$2 size=$3 ops=$4
	shift 4
	for op in $ops; do
		# shellcheck disable=SC2046
		collctl run -n "$size" -- "$kind" -q --no-sync --order "${ORDER:-any}" --op "$op" $(hint "$d") \
			'in.{rank}.npy' -o "out.$op.{rank}.npy" || fail "$kind $op $d"
	done
	dt check "$kind" "${ops// /,}" "$d" "$size" "$@"
}

# every_op KIND DTYPE P [OPTION...]: all operations that it has
every_op() {
	local op ops=''
	for op in "${OPS[@]}"; do
		[[ $1:$op != *scan:avg ]] || continue
		! has "$op" "$2" || ops+=" $op"
	done
	over "$1" "$2" "$3" "${ops# }" "${@:4}"
}

# bats test_tags=smoke
@test "every operation on bool, complex numbers and 8-bit floats" {
	local d
	for d in bool c64 c128 f8e4m3 f8e5m2; do
		dt make "$d" 3
		every_op allreduce "$d" 3
	done
}

@test "logical operations on integers" {
	local d
	for d in i8 i16 i32 i64 u8 u16 u32 u64; do
		dt make "$d" 2
		over allreduce "$d" 2 'land lor lxor'
	done
}

@test "truth is 0 or 1, whatever bytes the files hold, also of one rank" {
	local size
	for size in 1 2 5; do
		dt make bool "$size" --data any
		every_op allreduce bool "$size" --data any
	done
	dt make bool 4 --data any
	every_op scan bool 4 --data any
	every_op exscan bool 4 --data any
}

@test "NaN, infinities and zeros of both signs in 8-bit floats" {
	local d
	for d in f8e4m3 f8e5m2; do
		dt make "$d" 3 --data special
		over allreduce "$d" 3 'sum min max avg' --data special
	done
}

@test "8-bit floats of all bits: two of them, rounded once" {
	local d
	for d in f8e4m3 f8e5m2; do
		dt make "$d" 2 --data any
		over allreduce "$d" 2 'sum prod min max avg' --data any
	done
}

@test "--order rank: f64 in rank order, of 8-bit floats and complex numbers of any bits" {
	local d
	for d in f8e4m3 f8e5m2; do
		dt make "$d" 5 --data any
		ORDER=rank over allreduce "$d" 5 'sum prod avg' --data any
	done
	for d in c64 c128; do
		dt make "$d" 5 --data any
		ORDER=rank over allreduce "$d" 5 'sum avg' --data any
	done
}

@test "scan and exscan: every operation, and its identity" {
	local d kind
	for d in bool c64 f8e4m3 f8e5m2 u16 f16; do
		dt make "$d" 3
		for kind in scan exscan; do
			every_op "$kind" "$d" 3
		done
	done
}

@test "big-endian files of every type; what is written is little-endian" {
	local d
	for d in i16 i32 i64 u16 u32 u64 f16 f32 f64 c64 c128; do
		dt make "$d" 2 --big-endian
		collctl run -n 2 -- allreduce -q --no-sync 'in.{rank}.npy' -o 'out.{rank}.npy'
		dt check allreduce sum "$d" 2
		collctl run -n 2 -- scan -q --no-sync 'in.{rank}.npy' -o 'out.{rank}.npy'
		dt check scan sum "$d" 2
	done
}

@test "raw files of every type, several local inputs" {
	local d
	for d in i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2 bool c64 c128; do
		dt make "$d" 2 --raw --inputs 2
		collctl run -n 2 -- allreduce -q --no-sync --dtype "$d" --shape 7,13 'in.{rank}.bin' 'in.{rank}.1.bin' -o 'out.{rank}.bin'
		dt check allreduce sum "$d" 2 --raw --inputs 2
	done
}

@test "operations that a type lacks are refused by name" {
	local d op
	for d in bool c64 c128 f8e4m3 f8e5m2; do
		dt make "$d" 1
		for op in "${OPS[@]}"; do
			! has "$op" "$d" || continue
			# shellcheck disable=SC2046
			run -2 --separate-stderr collctl run -n 1 -- allreduce --op "$op" $(hint "$d") in.0.npy -o out.npy
			# shellcheck disable=SC2154
			[[ $stderr == *"$op"*"$d"* ]] || fail "$stderr"
		done
	done
	assert_file_not_exist out.npy
}

@test "an .npy of type V1 needs a name; the words say which, and a wrong one is refused" {
	dt make f8e4m3 1
	run -3 --separate-stderr collctl run -n 1 -- allreduce in.0.npy -o out.npy
	[[ $stderr == *f8e4m3*f8e5m2*safetensors* ]] || fail "$stderr"
	run -3 collctl run -n 1 -- allreduce --dtype bf16 in.0.npy -o out.npy
	run -3 collctl run -n 1 -- allreduce --dtype u8 in.0.npy -o out.npy
	dt make u8 1
	run -3 collctl run -n 1 -- allreduce --dtype f8e4m3 in.0.npy -o out.npy
	run -2 collctl run -n 1 -- allreduce --dtype f4 in.0.npy -o out.npy
	assert_file_not_exist out.npy
}
