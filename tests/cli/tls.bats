#!/usr/bin/env bats
# The records of TLS (docs/TLS.md): collctl's, OpenSSL's, and one rank with each.

load helpers

# shards P: in.0.npy to in.P-1.npy, of which each rank sends several records to each other one
shards() {
	local r
	for ((r = 0; r < $1; r++)); do
		"$PYTHON" -c "import numpy as np; np.save('in.$r.npy', np.random.default_rng($r).standard_normal(120017, dtype=np.float32))"
	done
}

# job OPTIONS...: a digest of the outputs of three ranks; .log has what they said
job() {
	collctl run -n 3 -- allreduce -a ring_chunked --lanes tcp -v "$@" 'in.{rank}.npy' -o 'out.{rank}.npy' >.log 2>&1 || fail "$*: $(<.log)"
	cat out.*.npy | sha256sum
	rm out.*
}

# bats test_tags=smoke
@test "the records of data are collctl's or OpenSSL's; the results are the same, and -v and version say which" {
	local want options records
	shards 3
	want=$(job --insecure)
	run -1 grep 'TLS records' .log
	for options in '' '--memory 1M' '--streams 3 --memory 2M'; do
		for records in own openssl; do
			# shellcheck disable=SC2086 # words
			[[ $(COLLCTL_TLS_RECORDS=$records job $options) == "$want" ]] || fail "$records $options"
			[[ $(grep -c "TLS records of data: $records\$" .log) == 3 ]] || fail "$(<.log)"
			COLLCTL_TLS_RECORDS=$records run -0 collctl version
			assert_line --regexp "^TLS records +$records\$"
			[[ $(COLLCTL_TLS_RECORDS=$records collctl version --json | jq -r .tls_records) == "$records" ]]
		done
	done
	[[ $(collctl version --json | jq -r .tls_records) == own ]]
}

# bats test_tags=smoke
@test "ranks with different records work together" {
	local r want
	shards 3
	want=$(job)
	start_serve
	make_secret
	for r in 0 1 2; do
		COLLCTL_TLS_RECORDS=$([[ $r == 1 ]] && echo own || echo openssl) \
			spawn_rank $r "$COLLCTL" allreduce -a ring_chunked --lanes tcp -n 3 -r $r -R "$STORE" --secret-file "$SECRET" "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	for r in 0 1 2; do assert_rank $r 0; done
	[[ $(cat out.*.npy | sha256sum) == "$want" ]]
}

@test "COLLCTL_TLS_RECORDS with another value is refused, 2" {
	shards 1
	COLLCTL_TLS_RECORDS=gnutls run -2 collctl version
	assert_output --partial "COLLCTL_TLS_RECORDS=gnutls: expected own or openssl"
	COLLCTL_TLS_RECORDS=gnutls run -2 collctl run -n 2 -- barrier
	assert_output --partial "COLLCTL_TLS_RECORDS=gnutls: expected own or openssl"
}

@test "in FIPS mode data have OpenSSL's records, whatever the variable says" {
	cat >openssl.cnf <<-'END'
		openssl_conf = init
		[init]
		alg_section = algorithms
		[algorithms]
		default_properties = fips=yes
	END
	export OPENSSL_CONF=$PWD/openssl.cnf
	[[ $(collctl version --json | jq -r .tls_records) == openssl ]]
	[[ $(COLLCTL_TLS_RECORDS=own collctl version --json | jq -r .tls_records) == openssl ]]
}
