#!/usr/bin/env bats
# serve: requests to the embedded store by curl; its files, its termination, its token, https.

load helpers

setup() {
	common_setup
	mkdir -p t
}

kv() { printf '%s/v1/kv/%s' "$STORE" "$1"; }
# get KEY[?ARGUMENTS]: the key's value
get() { curl -s --max-time 30 "$(kv "$1")" | jq -r '.[0].Value' | base64 -d; }
put() { curl -s --max-time 30 -X PUT --data-binary "$2" "$(kv "$1")"; }
# status METHOD PATH [CURL OPTIONS]: only the HTTP status
status() {
	local method=$1 path=$2
	shift 2
	curl -s --max-time 30 -o /dev/null -w '%{http_code}' -X "$method" "$@" "$STORE$path"
}
# index PATH: X-Consul-Index of a GET
index() {
	curl -s --max-time 30 -o /dev/null -D - "$STORE$1" | tr -d '\r' |
		sed -n 's/^X-Consul-Index: //p'
}

# bats test_tags=smoke
@test "create if absent, compare and swap, delete" {
	start_serve
	assert_equal "$(status GET /v1/kv/job/a)" 404
	assert_equal "$(put 'job/a?cas=0' one)" true
	assert_equal "$(put 'job/a?cas=0' two)" false
	assert_equal "$(get job/a)" one
	local i
	run -0 --separate-stderr jq -c . <(curl -s "$(kv job/a)")
	[[ $output =~ ^'[{"Key":"job/a","Value":"b25l","ModifyIndex":'([0-9]+)'}]'$ ]] || fail "$output"
	i=${BASH_REMATCH[1]}
	assert_equal "$(index /v1/kv/job/a)" "$i"
	assert_equal "$(put "job/a?cas=$((i + 1))" two)" false
	assert_equal "$(put "job/a?cas=$i" two)" true
	assert_equal "$(get job/a)" two
	assert_equal "$(curl -s -X DELETE "$(kv "job/a?cas=$i")")" false
	assert_equal "$(curl -s -X DELETE "$(kv job/a)")" true
	assert_equal "$(status GET /v1/kv/job/a)" 404
}

@test "any bytes are stored, up to 64 KiB" {
	start_serve
	head -c 65536 /dev/urandom >value
	assert_equal "$(put k @value)" true
	get k >back
	cmp value back
	echo >>value
	assert_equal "$(status PUT /v1/kv/k --data-binary @value)" 413
	run curl -s --max-time 30 -X PUT -H 'Transfer-Encoding: chunked' --data-binary @value "$(kv k)"
	refute_output true
	: >value
	assert_equal "$(put empty @value)" true
	assert_equal "$(curl -s "$(kv empty)" | jq '.[0].Value')" null
}

@test "a blocking query ends by a change, another key's change does not end it" {
	local i
	start_serve
	put k old >/dev/null
	i=$(index /v1/kv/k)
	get "k?index=$i&wait=25s" >answer &
	local waiter=$!
	put other x >/dev/null
	sleep 0.3 # an answer would have come by then
	kill -0 "$waiter"
	assert_equal "$(put k new)" true
	wait "$waiter"
	assert_equal "$(<answer)" new
	# a missing key, and the time
	i=$(index /v1/kv/missing)
	curl -s "$(kv "missing?index=$i&wait=25s")" >answer &
	waiter=$!
	put missing here >/dev/null
	wait "$waiter"
	i=$(index /v1/kv/missing)
	SECONDS=0
	assert_equal "$(get "missing?index=$i&wait=1s")" here
	((SECONDS >= 1 && SECONDS < 25))
}

@test "--ttl: keys end by themselves, and that ends a blocking query" {
	local code i
	start_serve --ttl 1s
	until [[ ${code-} == 200 ]]; do # the key is there, and its index is known
		put k x >/dev/null
		code=$(curl -s --max-time 30 -o /dev/null -D headers -w '%{http_code}' "$(kv k)")
	done
	i=$(tr -d '\r' <headers | sed -n 's/^X-Consul-Index: //p')
	SECONDS=0
	assert_equal "$(status GET "/v1/kv/k?index=$i&wait=25s")" 404
	((SECONDS < 20))
}

@test "what is no request of ours: 404, 405 with Allow, 400" {
	start_serve
	assert_equal "$(status GET /)" 404
	assert_equal "$(status GET /v1/agent/self)" 404
	assert_equal "$(status POST /v1/kv/k -d x)" 405
	assert_equal "$(status PUT '/v1/kv/k?cas=x' -d x)" 400
	assert_equal "$(status PUT /v1/kv/ -d x)" 400
	assert_equal "$(status GET '/v1/kv/k?index=1&wait=soon')" 400
	run -0 curl -si -X POST -d x "$(kv k)"
	assert_line --regexp '^Allow: .*PUT'
}

# What Consul would do, and this store does not, must not be done by half.
@test "Consul's lists, sessions, locks, flags and raw values are refused with a sentence" {
	local request
	start_serve
	put k old >/dev/null
	while read -r code request; do
		# shellcheck disable=SC2086 # a method and a path
		assert_equal "$request $(status $request)" "$request $code"
	done <<-END
		400 GET /v1/kv/?recurse
		400 GET /v1/kv/?keys
		400 GET /v1/kv/
		400 GET /v1/kv/k?recurse
		400 GET /v1/kv/k?keys&separator=/
		400 GET /v1/kv/k?raw
		400 GET /v1/kv/k?index=1&index=2
		400 PUT /v1/kv/k?flags=1
		400 PUT /v1/kv/k?acquire=a
		400 PUT /v1/kv/k?release=a
		400 PUT /v1/kv/k?cas=0&index=1
		400 PUT /v1/kv/k?cas%00=0
		400 DELETE /v1/kv/?recurse
		400 DELETE /v1/kv/k?recurse
		404 PUT /v1/session/create
		404 GET /v1/session/list
	END
	assert_equal "$(get k)" old
	assert_equal "$(curl -s "$(kv '?recurse')")" 'no key; only single keys are served, at /v1/kv/KEY'
	assert_equal "$(curl -s -X DELETE "$(kv 'k?recurse')")" \
		'GET takes the arguments index and wait, PUT and DELETE take cas; there are no others'
	assert_equal "$(curl -s -X PUT "$STORE/v1/session/create")" 'only keys are served, at /v1/kv/KEY'
}

# bats test_tags=smoke
@test "a token is asked for, in either header" {
	echo letmein >token
	chmod 600 token
	start_serve --token-file token
	assert_equal "$(status GET /v1/kv/k)" 403
	assert_equal "$(status PUT /v1/kv/k -d x)" 403
	assert_equal "$(status PUT /v1/kv/k -d x -H 'X-Consul-Token: letmeinn')" 403
	assert_equal "$(status PUT /v1/kv/k -d x -H 'Authorization: Basic letmein')" 403
	assert_equal "$(status PUT /v1/kv/k -d x -H 'X-Consul-Token: letmein')" 200
	assert_equal "$(status GET /v1/kv/k -H 'Authorization: Bearer letmein')" 200
	: >empty
	chmod 600 empty
	run -6 --separate-stderr collctl serve --listen 127.0.0.1:0 --token-file empty
	[[ $stderr == *empty* ]]
	run -6 --separate-stderr collctl serve --listen 127.0.0.1:0 --token-file nowhere
	[[ $stderr == *nowhere* ]]
}

@test "https" {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert \
		-subj /CN=store -addext subjectAltName=IP:127.0.0.1 -days 2 2>/dev/null
	start_serve --tls-cert cert --tls-key key
	STORE=https://${STORE#http://}
	run -60 curl -s "$(kv k)"
	assert_equal "$(curl -s --cacert cert -X PUT -d x "$(kv k)")" true
	assert_equal "$(curl -s --cacert cert "$(kv k)" | jq -r '.[0].Value')" eA==
	run -2 --separate-stderr collctl serve --listen 127.0.0.1:0 --tls-cert cert
	[[ $stderr == *--tls-key* ]]
	run -6 --separate-stderr collctl serve --listen 127.0.0.1:0 --tls-cert cert --tls-key nowhere
	[[ $stderr == *nowhere* ]]
	run -6 collctl serve --listen 127.0.0.1:0 --tls-cert key --tls-key cert
	assert_output 'collctl: key: no certificate in it (PEM)'
	(umask 077 && echo x >nokey)
	run -6 collctl serve --listen 127.0.0.1:0 --tls-cert cert --tls-key nokey
	assert_output 'collctl: nokey: no private key in it (PEM)'
	run -6 collctl serve --listen 127.0.0.1:0 --tls-cert /dev/null --tls-key key
	assert_output 'collctl: /dev/null: no certificate in it (PEM)'
	chmod 640 key
	run -6 --separate-stderr collctl serve --listen 127.0.0.1:0 --tls-cert cert --tls-key key
	[[ $stderr == *'key: mode 0640'*'chmod 600 key'* ]] || fail "$stderr"
}

# offers NAME OPTIONS...: do a client with these options and the store at $STORE agree on a session?
offers() {
	openssl s_client -connect "${STORE#https://}" "$@" </dev/null >s_client.out 2>&1 &&
		! grep -qE 'Cipher is \(NONE\)|no peer certificate' s_client.out
}

@test "84: https takes TLS 1.2 and 1.3 with authenticated encryption and forward secrecy alone" {
	local kind cipher weak='@SECLEVEL=0'
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ec.key -out ec.pem \
		-subj /CN=store -addext subjectAltName=IP:127.0.0.1 -days 2 2>/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.pem \
		-subj /CN=store -addext subjectAltName=IP:127.0.0.1 -days 2 2>/dev/null
	for kind in ec rsa; do
		start_serve --tls-cert $kind.pem --tls-key $kind.key
		STORE=https://${STORE#http://}
		offers -tls1_3 || fail "$(<s_client.out)"
		offers -tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256 || fail "$(<s_client.out)"
		offers -tls1_2 || fail "$(<s_client.out)"
		grep -qE 'Cipher is ECDHE-.*(GCM|POLY1305)' s_client.out || fail "$(<s_client.out)"
		# Each suite of TLS 1.2 that this OpenSSL has: those of the list above, and no other.
		for cipher in $(openssl ciphers -s -tls1_2 "ALL:COMPLEMENTOFALL$weak" | tr : ' '); do
			case $cipher in
			TLS_*) continue ;; # of TLS 1.3
			ECDHE-ECDSA-AES*-GCM-* | ECDHE-ECDSA-CHACHA20-*) [[ $kind == ec ]] ;;
			ECDHE-RSA-AES*-GCM-* | ECDHE-RSA-CHACHA20-*) [[ $kind == rsa ]] ;;
			*) false ;;
			esac && wanted=1 || wanted=0
			offers -tls1_2 -cipher "$cipher$weak" && got=1 || got=0
			((got == wanted)) || fail "$kind: $cipher: $(<s_client.out)"
		done
		for version in -tls1 -tls1_1; do
			! offers $version -cipher "ALL$weak" || fail "$kind $version: $(<s_client.out)"
		done
		! offers -tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256 || fail "$kind CCM: $(<s_client.out)"
		kill "$SERVE_PID"
	done
}

@test "84: a token that would travel in plain text gets a warning" {
	collctl keygen token
	start_serve --listen 0.0.0.0:0 --token-file token
	grep -q 'clients send the token in plain text' serve.1.err || fail "$(<serve.1.err)"
	start_serve --token-file token # on the loopback
	! grep -q 'plain text' serve.2.err || fail "$(<serve.2.err)"
	run -5 --separate-stderr collctl barrier -n 2 -r 1 -R http://0.0.0.0:1 --store-token-file token --join-timeout 1ms --insecure
	[[ $stderr == *'http://0.0.0.0:1: the token of --store-token-file is sent in plain text'* ]] || fail "$stderr"
	run -5 --separate-stderr collctl barrier -n 2 -r 1 -R http://127.0.0.1:1 --store-token-file token --join-timeout 1ms --insecure
	[[ $stderr != *'plain text'* ]] || fail "$stderr"
}

@test "https without the certificates of public CAs: the message names them and --store-ca" {
	unset CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR
	unshare -m true 2>/dev/null || skip 'no mount namespace can be made'
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key -out cert \
		-subj /CN=store -addext subjectAltName=IP:127.0.0.1 -days 2 2>/dev/null
	start_serve --tls-cert cert --tls-key key
	# shellcheck disable=SC2016 # for that shell
	run -6 --separate-stderr unshare -m bash -c 'mount -t tmpfs none /etc/ssl/certs && exec "$0" "$@"' "$COLLCTL" \
		barrier -n 2 -r 1 -R "https://${STORE#http://}" --insecure
	[[ $stderr == */etc/ssl/certs*ca-certificates*--store-ca* ]] || fail "$stderr"
}

# bats test_tags=smoke
@test "a port without a host is no address" {
	run -2 collctl serve --listen 7700
	assert_output "collctl: '7700' is not an address: expected HOST:PORT or :7700 for all interfaces"
}

@test "it says where it listens; -q says nothing" {
	local port
	start_serve
	port=$(<serve.1.port)
	assert_equal "$(<serve.1.err)" "collctl: serving the store at http://127.0.0.1:$port"
	assert_equal "$(<serve.1.out)" ''
	start_serve -q
	assert_equal "$(<serve.2.err)" ''
	start_serve --listen 0.0.0.0:0
	assert_regex "$(<serve.3.err)" '--token-file'
}

@test "--ready-fd and --port-file hold the port, which is served by then" {
	local fd line
	coproc SERVE { exec "$COLLCTL" serve --listen 127.0.0.1:0 --ready-fd 1 --port-file p 2>err; }
	exec {fd}<&"${SERVE[0]}"
	read -r -t 30 line <&"$fd"
	assert_equal "$(<p)" "$line"
	STORE=http://127.0.0.1:$line
	assert_equal "$(status GET /v1/kv/k)" 404
	run -1 read -r -t 30 line <&"$fd" # it was closed: an end, not a wait
	assert_equal "$(find . -name 'p*')" ./p
}

@test "a port file that can't be written: 4, and nothing is served" {
	run -4 --separate-stderr collctl serve --listen 127.0.0.1:0 --port-file nowhere/port
	[[ $stderr == *nowhere/port* ]]
	run -4 --separate-stderr collctl serve --listen 127.0.0.1:0 --ready-fd 77
	[[ $stderr == *77* ]]
}

@test "SIGTERM and SIGINT end it with 128 + signal, and who waits has an answer" {
	local signal i
	for signal in TERM:143 INT:130; do
		start_serve
		i=$(index /v1/kv/k)
		status GET "/v1/kv/k?index=$i&wait=25s" >answer &
		local waiter=$!
		# The server has read the request, and takes a signal after what it has read.
		until ss -Htni state established "sport = :${STORE##*:}" | grep -A1 '^0 ' | grep -q ' bytes_received:'; do
			kill -0 "$waiter"
		done
		kill -"${signal%:*}" "$SERVE_PID"
		wait "$SERVE_PID" && code=0 || code=$?
		assert_equal "$code" "${signal#*:}"
		wait "$waiter"
		assert_equal "$(<answer)" 404
	done
}

@test "--once ends when the first record is withdrawn, after its answer" {
	start_serve --once
	put a x >/dev/null
	put a y >/dev/null
	assert_equal "$(curl -s -X DELETE "$(kv nothing)")" true
	assert_equal "$(curl -s -X DELETE "$(kv 'a?cas=99')")" false
	kill -0 "$SERVE_PID"
	assert_equal "$(curl -s -X DELETE "$(kv a)")" true
	wait "$SERVE_PID"
}

@test "an address that is taken or not ours: 11, 2" {
	start_serve
	run -11 --separate-stderr collctl serve --listen "${STORE#http://}"
	[[ $stderr == *"${STORE#http://}"* ]]
	run -2 --separate-stderr collctl serve --listen 203.0.113.1:0
	[[ $stderr == *203.0.113.1* ]]
	run -2 collctl serve --listen 127.0.0.1:port
	run -2 collctl serve --listen no-such-host.invalid:0
}

@test "hundreds wait at once; idle and broken connections do no harm" {
	local i n=200
	start_serve
	for ((i = 0; i < n; i++)); do
		echo "url = \"$(kv "k?index=1&wait=25s")\""
		echo "output = t/$i"
	done >config
	curl -s --max-time 60 -Z --parallel-max "$n" --parallel-immediate -K config &
	local waiters=$!
	for ((i = 0; i < 50; i++)); do
		exec {fd}<>"/dev/tcp/127.0.0.1/${STORE##*:}"
		((i % 2)) && printf 'GET /v1' >&"$fd"
		((i % 3)) || exec {fd}>&-
	done
	until (($(ss -Htn state established "sport = :${STORE##*:}" | wc -l) >= n)); do
		kill -0 "$waiters" || break
	done
	assert_equal "$(put k go)" true
	wait "$waiters"
	for ((i = 0; i < n; i++)); do
		[[ $(<"t/$i") == *'"Value":"Z28="'* ]] || fail "waiter $i got '$(<"t/$i")'"
	done
}

# Row 57 of the table of faults.
@test "a full store and clients that take no answer: bounded memory, others are served" {
	local clients=$((LONG ? 4000 : 1000)) refused peak
	if ((LONG)) && (($(ulimit -Hn) < 4500)); then
		skip "4,000 clients need 4,500 descriptors, and the limit is $(ulimit -Hn)"
	fi
	start_serve
	run -0 --separate-stderr "$PYTHON" "$HELPERS_DIR/../fault/greedy.py" "$STORE" "$SERVE_PID" "$clients"
	echo "$output"
	read -r _ _ _ refused _ peak <<<"$output"
	((refused > 0))
	# The manual says about 200; sanitizers keep freed memory.
	grep -qE '__(asan|tsan)_init' "$COLLCTL" || ((peak < 200))
}
