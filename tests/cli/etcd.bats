#!/usr/bin/env bats
# etcd as the store where ranks meet: Debian's etcd-server, started here.

load helpers

setup() {
	common_setup
	command -v etcd >/dev/null || skip 'no etcd: tests/setup.sh test'
	make_secret
	unset CURL_CA_BUNDLE SSL_CERT_FILE
	SCHEME=http
	CURL=() # options of ask
}

# start_member NAME PORT PEER_PORT CLUSTER [OPTION...]: a member of a cluster. Sets MEMBER_PID.
start_member() {
	local name=$1 port=$2 peer=$3 cluster=$4
	shift 4
	etcd --name "$name" --data-dir "$name.etcd" --logger zap --log-level error \
		--listen-client-urls "$SCHEME://127.0.0.1:$port" \
		--advertise-client-urls "$SCHEME://127.0.0.1:$port" \
		--listen-peer-urls "http://127.0.0.1:$peer" \
		--initial-advertise-peer-urls "http://127.0.0.1:$peer" \
		--initial-cluster "$cluster" "$@" 3>&- >"$name.log" 2>&1 &
	MEMBER_PID=$!
	STARTED+=($!)
}

# start_etcd [OPTION...]: a cluster of one. Sets STORE, ETCD (its own URL), ONE_PORTS and MEMBER_PID.
start_etcd() {
	free_port
	ONE_PORTS=("$PORT")
	ETCD=$SCHEME://127.0.0.1:$PORT
	free_port
	ONE_PORTS+=("$PORT")
	STORE=etcd+$ETCD
	restart_etcd "$@"
}

restart_etcd() {
	start_member one "${ONE_PORTS[@]}" "one=http://127.0.0.1:${ONE_PORTS[1]}" "$@"
	wait_listening "${ONE_PORTS[0]}" "$MEMBER_PID" || fail "etcd did not start: $(<one.log)"
}

# stop_etcd SIGNAL
stop_etcd() {
	kill "-$1" "$MEMBER_PID"
	wait "$MEMBER_PID" || true
}

# ask PATH JSON [CURL OPTION...]: what etcd answers
ask() {
	local path=$1 json=$2
	shift 2
	curl -sf --max-time 60 --retry 20 --retry-delay 1 --retry-all-errors "${CURL[@]}" "$@" -d "$json" "$ETCD$path"
}

# Users of etcd: root, and rank, who may use the keys that begin with "collctl/".
make_users() {
	local from to
	from=$(printf collctl/ | base64)
	to=$(printf collctl0 | base64)
	ask /v3/auth/user/add '{"name":"root","password":"root-4711"}' >/dev/null
	ask /v3/auth/user/add '{"name":"rank","password":"pass:\"4711"}' >/dev/null
	ask /v3/auth/role/add '{"name":"root"}' >/dev/null
	ask /v3/auth/role/add '{"name":"rank"}' >/dev/null
	ask /v3/auth/role/grant "{\"name\":\"rank\",\"perm\":{\"permType\":2,\"key\":\"$from\",\"range_end\":\"$to\"}}" >/dev/null
	ask /v3/auth/user/grant '{"user":"root","role":"root"}' >/dev/null
	ask /v3/auth/user/grant '{"user":"rank","role":"rank"}' >/dev/null
	ask /v3/auth/enable '{}' >/dev/null
	token rank 'rank:pass:"4711'
}

root_token() { ask /v3/auth/authenticate '{"name":"root","password":"root-4711"}' | jq -r .token; }

# token FILE TEXT: a file that only this user reads
token() { (umask 077 && printf '%s\n' "$2" >"$1"); }

# wait_key [CURL OPTION...]: until rank 0's record is in etcd
wait_key() {
	local key fd
	key=$(printf '%s' "${KEY:-collctl/job}" | base64 -w 0)
	until ask /v3/kv/range "{\"key\":\"$key\"}" "$@" | jq -e '.kvs' >/dev/null; do
		# The first line says that the watch was created; the second comes when the key has changed.
		exec {fd}< <(curl -sfN --max-time 60 "$@" 3>&- \
			-d "{\"create_request\":{\"key\":\"$key\",\"start_revision\":\"1\"}}" "$ETCD/v3/watch")
		! read -r _ <&"$fd" || read -r _ <&"$fd" || true
		exec {fd}<&-
	done
}

assert_no_keys() { # [CURL OPTION...]
	assert_equal "$(ask /v3/kv/range '{"key":"AA==","range_end":"AA==","count_only":true}' "$@" | jq -r '.count // 0')" 0
}

# bats test_tags=smoke
@test "three ranks meet at etcd and add their arrays; the record is gone at the end" {
	start_etcd
	make_shards 3 f32 1000
	for r in 0 1 2; do
		rank "$r" 3 allreduce "in.$r.npy" -o "out.$r.npy"
	done
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
	assert_no_keys
}

@test "the URL's path is a prefix of the keys, and rank 0 may be the last to come" {
	start_etcd
	STORE+=/team/x/ KEY=team/x/collctl/job
	rank 1 2 barrier
	rank 0 2 barrier
	wait_ranks
	assert_ranks 2 0
	rank 0 2 barrier
	wait_key
	rank 1 2 barrier
	wait_ranks
	assert_ranks 2 0
	assert_no_keys
}

@test "one rank does not come: 5, with the record's address and its store" {
	start_etcd
	rank 0 2 barrier --join-timeout 3s
	wait_ranks
	assert_rank 0 5 'rank 1'
	rank 1 2 barrier --join-timeout 3s
	wait_ranks
	assert_rank 1 5 'no record collctl/job' "$STORE"
	assert_no_keys
}

@test "a stale record is replaced" {
	start_etcd
	rank 0 2 barrier
	wait_key
	kill -KILL "${PIDS[0]}"
	wait_ranks
	ranks 2 barrier
	assert_ranks 2 0
	assert_no_keys
}

@test "SIGTERM while rank 0 waits withdraws the record" {
	start_etcd
	rank 0 2 barrier
	wait_key
	kill -TERM "${PIDS[0]}"
	wait_ranks
	assert_rank 0 143
	assert_no_keys
}

@test "etcd is restarted while ranks wait; compacted revisions do no harm" {
	start_etcd
	rank 0 2 barrier
	wait_key
	ask /v3/kv/put '{"key":"eA==","value":"eA=="}' >/dev/null
	ask /v3/kv/compaction '{"revision":"3","physical":true}' >/dev/null
	stop_etcd TERM
	restart_etcd
	rank 1 2 barrier
	wait_ranks
	assert_ranks 2 0
}

@test "etcd has lost all its data: the record is published again" {
	start_etcd
	ask /v3/kv/put '{"key":"eA==","value":"eA=="}' >/dev/null
	ask /v3/kv/put '{"key":"eA==","value":"eA=="}' >/dev/null
	ask /v3/kv/deleterange '{"key":"eA=="}' >/dev/null
	rank 0 2 barrier
	wait_key
	stop_etcd KILL
	rm -r one.etcd
	restart_etcd
	wait_key
	rank 1 2 barrier
	wait_ranks
	assert_ranks 2 0
	assert_no_keys
}

@test "users: the ranks authenticate by USER:PASSWORD, or show a token" {
	start_etcd
	make_users
	ranks 3 barrier --store-token-file rank
	assert_ranks 3 0
	token plain "$(ask /v3/auth/authenticate '{"name":"rank","password":"pass:\"4711"}' | jq -r .token)"
	ranks 2 barrier --store-token-file plain
	assert_ranks 2 0
	COLLCTL_STORE_TOKEN=$(<rank) ranks 2 barrier
	assert_ranks 2 0
}

@test "users: no user, a wrong password, no permission, a wrong token: 6, and why" {
	start_etcd
	make_users
	rank 1 2 barrier
	wait_ranks
	assert_rank 1 6 'requires a user' --store-token-file "$STORE"
	token wrong rank:no-such-4711
	rank 1 2 barrier --store-token-file wrong
	wait_ranks
	assert_rank 1 6 'refuses the user or the password' "$STORE"
	run ! grep no-such-4711 1.err
	token wrong no-such-token-4711
	rank 1 2 barrier --store-token-file wrong
	wait_ranks
	assert_rank 1 6 'invalid auth token' --store-token-file
	run ! grep no-such-token 1.err
	STORE+=/secret
	rank 1 2 barrier --store-token-file rank
	wait_ranks
	assert_rank 1 6 "denies this user the key 'secret/collctl/job'"
}

@test "users: a token that is revoked while rank 0 waits is replaced" {
	start_etcd
	make_users
	rank 0 2 barrier --store-token-file rank
	wait_key -H "Authorization: $(root_token)"
	# A new password revokes the user's tokens, though it is the old one.
	ask /v3/auth/user/changepw '{"name":"rank","password":"pass:\"4711"}' -H "Authorization: $(root_token)" >/dev/null
	rank 1 2 barrier --store-token-file rank
	wait_ranks
	assert_ranks 2 0
	assert_no_keys -H "Authorization: $(root_token)"
}

@test "users: etcd is restarted and has forgotten the tokens" {
	start_etcd
	make_users
	rank 0 2 barrier --store-token-file rank
	wait_key -H "Authorization: $(root_token)"
	stop_etcd TERM
	restart_etcd
	rank 1 2 barrier --store-token-file rank
	wait_ranks
	assert_ranks 2 0
	assert_no_keys -H "Authorization: $(root_token)"
}

# refused TOKEN: does etcd refuse the token by now?
refused() { curl -s --max-time 60 -H "Authorization: $1" -d '{"key":"eA=="}' "$ETCD/v3/kv/range" | grep -q 'invalid auth token'; }

# outlive RANK: a token that etcd gives now has expired, so that of the rank has, too
outlive() {
	local t
	t=$(root_token)
	[[ -n $t && $t != null ]]
	until refused "$t"; do kill -0 "${PIDS[$1]}"; done
}

# watchers: how many watches etcd serves
watchers() { curl -s --max-time 60 "$ETCD/metrics" | sed -n 's/^etcd_debugging_mvcc_watcher_total //p'; }

@test "users: tokens that expire while ranks wait, for the record and with it, are replaced" {
	local key
	key=$(printf collctl/job | base64)
	openssl genrsa -out jwt.key 2048 2>/dev/null
	openssl rsa -in jwt.key -pubout -out jwt.pub 2>/dev/null
	start_etcd --auth-token jwt,pub-key=jwt.pub,priv-key=jwt.key,sign-method=RS256,ttl=2s
	make_users
	rank 1 3 barrier --store-token-file rank
	until [[ $(watchers) == 1 ]]; do kill -0 "${PIDS[1]}"; done # rank 1 waits for the record
	outlive 1
	rank 0 3 barrier --store-token-file rank
	until ask /v3/kv/range "{\"key\":\"$key\"}" -H "Authorization: $(root_token)" | jq -e .kvs >/dev/null; do
		kill -0 "${PIDS[0]}"
	done
	outlive 0
	rank 2 3 barrier --store-token-file rank
	wait_ranks
	assert_ranks 3 0
	assert_no_keys -H "Authorization: $(root_token)" # rank 0 has withdrawn the record
}

@test "an etcd without users ignores USER:PASSWORD" {
	start_etcd
	token rank rank:none
	ranks 2 barrier --store-token-file rank
	assert_ranks 2 0
}

# make_certificates: ca.pem, and server, client (without a common name), named (with one)
make_certificates() {
	local name
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca \
		-keyout ca.key -out ca.pem 2>/dev/null
	for name in server:/O=server client:/O=client named:/CN=rank; do
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "${name#*:}" \
			-keyout "${name%:*}.key" -out csr 2>/dev/null
		openssl x509 -req -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out "${name%:*}.pem" \
			-extfile <(echo 'subjectAltName=IP:127.0.0.1') 2>/dev/null
	done
}

@test "TLS: --store-ca, the environment's certificates, and none: 6" {
	make_certificates
	SCHEME=https
	start_etcd --cert-file server.pem --key-file server.key
	ranks 2 barrier --store-ca ca.pem
	assert_ranks 2 0
	SSL_CERT_FILE=ca.pem ranks 2 barrier
	assert_ranks 2 0
	rank 1 2 barrier
	wait_ranks
	assert_rank 1 6 "$STORE" certificate
	rank 1 2 barrier --store-ca nowhere.pem
	wait_ranks
	assert_rank 1 3 'nowhere.pem'
}

@test "TLS: etcd wants a client's certificate; one with a common name is refused with users" {
	make_certificates
	SCHEME=https
	start_etcd --cert-file server.pem --key-file server.key --client-cert-auth --trusted-ca-file ca.pem
	rank 1 2 barrier --store-ca ca.pem
	wait_ranks
	assert_rank 1 6 --store-cert "$STORE"
	ranks 2 barrier --store-ca ca.pem --store-cert client.pem --store-key client.key
	assert_ranks 2 0
	ranks 2 barrier --store-ca ca.pem --store-cert named.pem --store-key named.key
	assert_ranks 2 0
	CURL=(--cacert ca.pem --cert client.pem --key client.key)
	make_users
	ranks 2 barrier --store-ca ca.pem --store-cert client.pem --store-key client.key --store-token-file rank
	assert_ranks 2 0
	rank 1 2 barrier --store-ca ca.pem --store-cert named.pem --store-key named.key --store-token-file rank
	wait_ranks
	assert_rank 1 2 'named.pem' "common name is 'rank'"
	rank 1 2 barrier --store-ca ca.pem --store-cert named.pem --store-key named.key
	wait_ranks
	assert_rank 1 6 'common name'
}

# start_cluster: three members. Sets STORE, ETCD (the last one's URL) and MEMBERS (their processes).
start_cluster() {
	local i cluster='' ports=() peers=()
	MEMBERS=()
	for i in 0 1 2; do
		free_port
		ports+=("$PORT")
		free_port
		peers+=("$PORT")
		cluster+=${cluster:+,}m$i=http://127.0.0.1:$PORT
	done
	for i in 0 1 2; do
		start_member "m$i" "${ports[i]}" "${peers[i]}" "$cluster"
		MEMBERS+=("$MEMBER_PID")
	done
	for i in 0 1 2; do
		wait_listening "${ports[i]}" "${MEMBERS[i]}" || fail "etcd did not start: $(<"m$i.log")"
	done
	ETCD=http://127.0.0.1:${ports[2]}
	STORE=etcd+http://127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}
}

@test "three members, one is killed while rank 0 waits: the others serve" {
	start_cluster
	make_shards 3 f32 1000
	rank 0 3 allreduce in.0.npy -o out.0.npy
	wait_key
	rank 1 3 allreduce in.1.npy -o out.1.npy
	kill -KILL "${MEMBERS[0]}"
	rank 2 3 allreduce in.2.npy -o out.2.npy
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
	assert_no_keys
}

@test "three members, the first hangs: the others serve" {
	start_cluster
	rank 0 3 barrier
	wait_key
	kill -STOP "${MEMBERS[0]}"
	rank 1 3 barrier
	rank 2 3 barrier
	wait_ranks
	assert_ranks 3 0
	assert_no_keys
}

@test "two of three members are down: 5, with the address that was tried" {
	start_cluster
	kill -KILL "${MEMBERS[@]:0:2}"
	rank 1 2 barrier --join-timeout 4s
	wait_ranks
	assert_rank 1 5 "etcd+http://127.0.0.1:"
}

@test "without the gateway: 5, and the option that turns it on" {
	start_etcd --enable-grpc-gateway=false
	rank 1 2 barrier
	wait_ranks
	assert_rank 1 5 'HTTP 404' --enable-grpc-gateway 'not etcd v3' "$STORE"
	start_serve
	STORE=etcd+$STORE
	rank 1 2 barrier
	wait_ranks
	assert_rank 1 5 'not etcd v3' "$STORE"
}

@test "files for TLS with a URL that has none: 2" {
	run -2 --separate-stderr collctl barrier -n 2 -r 0 -R etcd+http://127.0.0.1:1 --store-ca none.pem --secret-file "$SECRET"
	[[ $stderr == *'etcd+http://127.0.0.1:1: has no TLS'*'https'* ]] || fail "$stderr"
}
