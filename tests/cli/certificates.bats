#!/usr/bin/env bats
# Certificates in place of a secret: `ca`, --tls-cert, --tls-key, --tls-ca, --tls-crl; and each refusal.

load helpers

# ---- certificates of openssl ----

new_key() { # FILE [TYPE]
	case ${2:-ec} in
	ec) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null ;;
	p384) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out "$1" 2>/dev/null ;;
	rsa) openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$1" 2>/dev/null ;;
	*) openssl genpkey -algorithm "$2" -out "$1" ;;
	esac
	chmod 600 "$1"
}

make_ca() { # NAME: NAME.pem, NAME.key
	new_key "$1.key"
	openssl req -x509 -key "$1.key" -out "$1.pem" -days 10 -subj "/CN=CA of $1" 2>/dev/null
	mkdir "$1.db"
	: >"$1.db/index"
	echo 01 >"$1.db/serial"
	cat >"$1.db/conf" <<-END
		[ca]
		default_ca = here
		[here]
		database = $1.db/index
		serial = $1.db/serial
		new_certs_dir = $1.db
		default_md = sha256
		default_days = 10
		default_crl_days = 10
		policy = any
		unique_subject = no
		copy_extensions = copy
		[any]
		commonName = supplied
	END
}

sign() { # CA NAME EXTENSIONS [OPTIONS OF openssl ca...]: NAME.pem for NAME.key
	openssl req -new -key "$2.key" -subj "/CN=$2" -out "$2.csr" 2>/dev/null
	openssl ca -batch -notext -config "$1.db/conf" -cert "$1.pem" -keyfile "$1.key" -in "$2.csr" -out "$2.pem" \
		-extfile <(printf '%s\n' "$3") "${@:4}" 2>openssl.err || fail "$(<openssl.err)"
}

leaf() { # CA NAME SAN [OPTIONS OF openssl ca...]
	new_key "$2.key"
	sign "$1" "$2" "subjectAltName=$3" "${@:4}"
}

list_of() { # CA [OPTIONS OF openssl ca...]: CA.crl
	openssl ca -gencrl -config "$1.db/conf" -cert "$1.pem" -keyfile "$1.key" -out "$1.crl" "${@:2}" 2>openssl.err ||
		fail "$(<openssl.err)"
}

# ---- ranks ----

# certified R CERTIFICATE [OPTIONS...]: rank R of a barrier of two, over $STORE
certified() {
	spawn_rank "$1" "$COLLCTL" barrier -n 2 -r "$1" -R "$STORE" --join-timeout 6s \
		--tls-cert "$2.pem" --tls-key "$2.key" --tls-ca ca.pem "${@:3}"
}

# refused_here CODE OPTIONS... -- TEXT...: a rank that ends before it connects, with these texts
refused_here() {
	local code=$1 options=() text
	shift
	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	run "-$code" --separate-stderr collctl barrier -n 2 -R http://127.0.0.1:1 "${options[@]}"
	for text; do
		[[ $stderr == *"$text"* ]] || fail "no '$text' in: $stderr"
	done
}

# refused_there TEXT0 TEXT1: rank 1 was refused with 6, and rank 0, which waits for it, says why in the end
refused_there() {
	wait_ranks
	assert_rank 1 6 "$2"
	assert_rank 0 5 "$1"
}

# ---- the CA ----

# bats test_tags=smoke
@test "ca init, issue, revoke: files that openssl verifies" {
	run -0 collctl ca init pki --name 'the lab'
	run -0 collctl ca issue pki --rank 3
	run -0 collctl ca issue pki --host node7.lab
	run -0 collctl ca issue pki --rank 12 --host 10.0.0.7 --days 5
	assert_equal "$(cd pki && stat -c '%n %a' ./*.key | xargs)" \
		'./ca.key 600 ./node7.lab.key 600 ./rank-12.key 600 ./rank-3.key 600'
	assert_equal "$(stat -c %a pki)" 700
	openssl verify -x509_strict -purpose sslserver -CAfile pki/ca.pem pki/rank-3.pem pki/node7.lab.pem pki/rank-12.pem
	openssl verify -x509_strict -purpose sslclient -CAfile pki/ca.pem pki/rank-3.pem pki/node7.lab.pem pki/rank-12.pem
	[[ $(openssl x509 -in pki/ca.pem -noout -subject) == *'the lab'* ]]
	[[ $(openssl x509 -in pki/rank-3.pem -noout -ext subjectAltName) == *URI:collctl:rank:3 ]]
	[[ $(openssl x509 -in pki/node7.lab.pem -noout -ext subjectAltName) == *DNS:node7.lab ]]
	[[ $(openssl x509 -in pki/rank-12.pem -noout -ext subjectAltName) == *'URI:collctl:rank:12, IP Address:10.0.0.7' ]]
	run -1 openssl x509 -in pki/rank-12.pem -noout -checkend $((6 * 86400))
	run -0 openssl x509 -in pki/rank-12.pem -noout -checkend $((4 * 86400))
	run -0 collctl ca revoke pki pki/rank-3.pem
	run -0 collctl ca revoke pki pki/node7.lab.pem pki/rank-3.pem
	openssl crl -in pki/ca.crl -CAfile pki/ca.pem -noout
	assert_equal "$(openssl crl -in pki/ca.crl -noout -text | grep -c 'Serial Number')" 2
	run -2 openssl verify -crl_check -CAfile pki/ca.pem -CRLfile pki/ca.crl pki/rank-3.pem
	run -0 openssl verify -crl_check -CAfile pki/ca.pem -CRLfile pki/ca.crl pki/rank-12.pem
}

@test "ca: nothing is overwritten without --force, and errors name the file" {
	run -0 collctl ca init pki
	run -0 collctl ca issue pki --rank 0
	cp -r pki before
	run -4 --separate-stderr collctl ca init pki
	[[ $stderr == *pki/ca.key* ]]
	run -4 --separate-stderr collctl ca issue pki --rank 0
	[[ $stderr == *pki/rank-0.key* ]]
	diff -r pki before
	run -0 collctl ca issue pki --rank 0 --force
	run -1 cmp -s pki/rank-0.key before/rank-0.key
	run -6 --separate-stderr collctl ca issue nowhere --rank 0
	[[ $stderr == *nowhere/ca.pem* ]]
	run -4 --separate-stderr collctl ca init nowhere/deep
	[[ $stderr == *nowhere/deep* ]]
	make_ca ca
	run -3 --separate-stderr collctl ca revoke pki ca.pem
	[[ $stderr == *'ca.pem: this CA has not issued it'* ]]
	run -3 --separate-stderr collctl ca revoke pki pki/rank-0.key
	[[ $stderr == *pki/rank-0.key* ]]
	assert_file_not_exist pki/ca.crl
	run -2 collctl ca issue pki
	run -2 collctl ca issue pki --host 'a b'
	run -2 collctl ca issue pki extra --rank 1
	run -2 collctl ca destroy pki
	run -2 collctl ca revoke pki
}

# ---- jobs ----

# bats test_tags=smoke
@test "a job by the certificates of ca, through a store and by a hostfile: the bytes of numpy" {
	local r
	collctl -q ca init pki
	for r in 0 1 2; do
		collctl -q ca issue pki --rank $r
	done
	make_shards 3 f32 1000
	start_serve
	for r in 0 1 2; do
		spawn_rank $r "$COLLCTL" allreduce -n 3 -r $r -R "$STORE" --tls-cert 'pki/rank-{rank}.pem' \
			--tls-key 'pki/rank-{rank}.key' --tls-ca pki/ca.pem in.$r.npy -o out.$r.npy
	done
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
	rm out.*
	make_hostfile hosts 3
	for r in 0 1 2; do # the certificate gives the rank
		spawn_rank $r env COLLCTL_TLS_CA=pki/ca.pem "$COLLCTL" allreduce -H hosts -r $r --tls-cert pki/rank-$r.pem \
			--tls-key pki/rank-$r.key in.$r.npy -o out.$r.npy
	done
	wait_ranks
	assert_ranks 3 0
	check_out sum 3
}

@test "without --rank, and with --rank auto, the certificate gives the rank" {
	local r option
	collctl -q ca init pki
	for r in 0 1 2; do
		collctl -q ca issue pki --rank $r
	done
	make_shards 3 f32 5
	start_serve
	for option in '' '-r auto'; do
		for r in 0 1 2; do
			# shellcheck disable=SC2086 # words
			spawn_rank $r "$COLLCTL" gather -n 3 -R "$STORE" $option --tls-cert pki/rank-$r.pem \
				--tls-key pki/rank-$r.key --tls-ca pki/ca.pem in.$r.npy -o 'out.{rank}.npy'
		done
		wait_ranks
		assert_ranks 3 0
		check_coll gather 3
		rm out.*
	done
	collctl -q ca issue pki --host 127.0.0.1
	refused_here 6 -r auto --tls-cert pki/127.0.0.1.pem --tls-key pki/127.0.0.1.key --tls-ca pki/ca.pem -- \
		'pki/127.0.0.1.pem' 'names one rank'
}

@test "certificates of hosts count with a hostfile, and only there" {
	local r
	make_ca ca
	leaf ca v4 IP:127.0.0.1
	leaf ca name DNS:localhost
	leaf ca other DNS:node9,IP:10.9.9.9
	free_port
	printf '127.0.0.1:%d\nlocalhost\n' "$PORT" >hosts
	for r in 0:v4 1:name; do
		spawn_rank "${r%:*}" "$COLLCTL" barrier -H hosts -r "${r%:*}" --tls-cert "${r#*:}.pem" --tls-key "${r#*:}.key" \
			--tls-ca ca.pem
	done
	wait_ranks
	assert_ranks 2 0
	run -6 --separate-stderr collctl barrier -H hosts -r 1 --tls-cert other.pem --tls-key other.key --tls-ca ca.pem
	[[ $stderr == *'other.pem: '*'names neither rank 1 (URI:collctl:rank:1) nor its host, localhost'* ]]
	refused_here 6 -r 1 --tls-cert v4.pem --tls-key v4.key --tls-ca ca.pem -- \
		'v4.pem: ' 'rank 1 (URI:collctl:rank:1)' 'only with a hostfile'
}

@test "keys of every usual kind, a chain with an issuer between, the key in the certificate's file" {
	local r kind
	make_ca ca
	r=0
	for kind in rsa p384 ED25519 ec; do
		new_key k$r.key $kind
		sign ca k$r "subjectAltName=URI:collctl:rank:$r"
		r=$((r + 1))
	done
	# As `step` writes them: the leaf, its issuer, and a key of the old form.
	openssl ecparam -name prime256v1 -genkey -noout -out k4.key
	new_key middle.key
	sign ca middle $'basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign'
	openssl req -new -key k4.key -subj / -out k4.csr
	openssl x509 -req -in k4.csr -CA middle.pem -CAkey middle.key -set_serial 7 -days 2 -out leaf.pem \
		-extfile <(printf '%s\n' subjectAltName=URI:collctl:rank:4 extendedKeyUsage=serverAuth,clientAuth) 2>/dev/null
	cat leaf.pem middle.pem k4.key >k4.pem
	grep -q 'BEGIN EC PRIVATE KEY' k4.pem
	chmod 600 k4.pem
	start_serve
	for r in 0 1 2 3; do
		spawn_rank $r "$COLLCTL" barrier -n 5 -r $r -R "$STORE" --tls-cert k$r.pem --tls-key k$r.key --tls-ca ca.pem
	done
	spawn_rank 4 "$COLLCTL" barrier -n 5 -r 4 -R "$STORE" --tls-cert k4.pem --tls-ca ca.pem
	wait_ranks
	assert_ranks 5 0
}

@test "run starts its ranks with certificates, too" {
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 1
	make_shards 2 f32 7
	run -0 collctl run -n 2 -- allreduce --tls-cert 'pki/rank-{rank}.pem' --tls-key 'pki/rank-{rank}.key' \
		--tls-ca pki/ca.pem 'in.{rank}.npy' -o 'out.{rank}.npy'
	check_out sum 2
}

# ---- refusals ----

# bats test_tags=smoke
@test "65: a rank refuses its own files before it connects, each defect with a text of its own" {
	make_ca ca
	make_ca other
	leaf ca r1 URI:collctl:rank:1
	leaf other stranger URI:collctl:rank:1
	leaf ca old URI:collctl:rank:1 -startdate 20200101000000Z -enddate 20210101000000Z
	leaf ca early URI:collctl:rank:1 -startdate 20900101000000Z -enddate 20910101000000Z
	leaf ca two URI:collctl:rank:5,URI:collctl:rank:6
	refused_here 6 -r 0 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem -- 'r1.pem: ' 'is that of rank 1, not 0'
	refused_here 6 -r 1 --tls-cert two.pem --tls-key two.key --tls-ca ca.pem -- 'two.pem: ' 'several ranks, but not of rank 1'
	refused_here 6 -r 1 --tls-cert old.pem --tls-key old.key --tls-ca ca.pem -- 'old.pem: expired on 2021-01-01 00:00:00 UTC'
	refused_here 6 -r 1 --tls-cert early.pem --tls-key early.key --tls-ca ca.pem -- 'early.pem: is valid only from 2090-01-01'
	refused_here 6 -r 1 --tls-cert stranger.pem --tls-key stranger.key --tls-ca ca.pem -- \
		'stranger.pem: ' 'CN=CA of other' 'ca.pem (--tls-ca)'
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key old.key --tls-ca ca.pem -- 'old.key: is not the key of' r1.pem
	refused_here 6 -r 1 --tls-cert r1.pem --tls-ca ca.pem -- 'r1.pem: ' 'lets other users read'
	chmod 600 r1.pem
	refused_here 6 -r 1 --tls-cert r1.pem --tls-ca ca.pem -- 'r1.pem: no private key'
	refused_here 6 -r 1 --tls-cert r1.key --tls-key r1.key --tls-ca ca.pem -- 'r1.key: no certificate'
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca r1.csr -- 'r1.csr: no certificate'
	refused_here 6 -r 1 --tls-cert nowhere.pem --tls-key r1.key --tls-ca ca.pem -- 'nowhere.pem: No such file'
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key nowhere.key --tls-ca ca.pem -- 'nowhere.key: No such file'
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca nowhere -- 'nowhere: No such file'
	chmod 644 r1.key
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem -- 'r1.key: ' 'chmod 600 r1.key'
	chmod 600 r1.key
	head -c 300 r1.pem >half.pem
	refused_here 6 -r 1 --tls-cert half.pem --tls-key r1.key --tls-ca ca.pem -- 'half.pem: '
}

@test "65: revocation lists: a revoked certificate, a list of another CA, an expired list, none" {
	make_ca ca
	make_ca other
	leaf ca r1 URI:collctl:rank:1
	leaf ca gone URI:collctl:rank:1
	openssl ca -revoke gone.pem -config ca.db/conf -cert ca.pem -keyfile ca.key 2>/dev/null
	list_of ca
	refused_here 6 -r 1 --tls-cert gone.pem --tls-key gone.key --tls-ca ca.pem --tls-crl ca.crl -- 'gone.pem: is revoked by ca.crl'
	list_of other
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem --tls-crl other.crl -- \
		'r1.pem: other.crl has no revocation list of its issuer, CN=CA of ca'
	list_of ca -crl_lastupdate 20200101000000Z -crl_nextupdate 20210101000000Z
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem --tls-crl ca.crl -- \
		'r1.pem: the revocation list of CN=CA of ca in ca.crl has expired'
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem --tls-crl ca.pem -- 'ca.pem: no revocation list'
	refused_here 6 -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem --tls-crl nowhere -- 'nowhere: No such file'
}

@test "65: options that need or exclude each other: 2" {
	make_ca ca
	leaf ca r1 URI:collctl:rank:1
	collctl keygen key
	refused_here 2 -r 1 --tls-cert r1.pem --tls-key r1.key -- '--tls-cert: needs --tls-ca'
	refused_here 2 -r 1 --tls-ca ca.pem -- '--tls-ca: needs --tls-cert'
	refused_here 2 -r 1 --tls-key r1.key -- '--tls-key: needs --tls-cert'
	refused_here 2 -r 1 --tls-crl x -- '--tls-crl: needs --tls-cert'
	refused_here 2 -r 1 --tls-key-password-fd 5 -- '--tls-key-password-fd: needs --tls-cert'
	refused_here 2 -r 1 --tls-cert r1.pem --tls-ca ca.pem --insecure -- '--tls-cert and --insecure exclude'
	refused_here 2 -r 1 --tls-cert r1.pem --tls-ca ca.pem --secret-file key -- '--tls-cert and --secret-file exclude'
	refused_here 2 -r 1 --tls-cert r1.pem --tls-ca ca.pem --secret-fd 3 -- '--tls-cert and --secret-fd exclude'
}

# bats test_tags=smoke
@test "65: what only the others can see: another CA, revoked there, not for clients" {
	make_ca ca
	make_ca other
	cat ca.pem other.pem >both.pem
	leaf ca r0 URI:collctl:rank:0
	leaf ca r1 URI:collctl:rank:1
	leaf other stranger URI:collctl:rank:1
	new_key server.key
	sign ca server $'subjectAltName=URI:collctl:rank:1\nextendedKeyUsage=serverAuth'
	new_key client.key
	sign ca client $'subjectAltName=URI:collctl:rank:0\nextendedKeyUsage=clientAuth'
	start_serve
	certified 0 r0
	certified 1 stranger --tls-ca both.pem
	refused_there "the peer's certificate, CN=stranger: its issuer, CN=CA of other, is not a CA in ca.pem (--tls-ca)" \
		"refuses this rank's certificate: its --tls-ca has not signed it"
	certified 0 r0 --tls-ca both.pem
	certified 1 stranger --tls-ca other.pem
	refused_there "refuses this rank's certificate: its --tls-ca has not signed it" \
		"the peer's certificate, CN=r0: its issuer, CN=CA of ca, is not a CA in other.pem (--tls-ca)"
	openssl ca -revoke r1.pem -config ca.db/conf -cert ca.pem -keyfile ca.key 2>/dev/null
	list_of ca
	certified 0 r0 --tls-crl ca.crl
	certified 1 r1
	refused_there "the peer's certificate, CN=r1: is revoked by ca.crl" \
		"refuses this rank's certificate: it is revoked there (--tls-crl)"
	certified 0 r0
	certified 1 server
	refused_there "the peer's certificate, CN=server: may not be used for this end" \
		"refuses this rank's certificate: its extended key usage lacks serverAuth or clientAuth"
	certified 0 client
	certified 1 r1
	refused_there "refuses this rank's certificate: its extended key usage lacks serverAuth or clientAuth" \
		"the peer's certificate, CN=client: may not be used for this end"
}

@test "65: a certificate on one rank, a secret or --insecure on the other" {
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 1
	make_secret
	make_hostfile hosts 2
	local with=(--tls-cert 'pki/rank-{rank}.pem' --tls-key 'pki/rank-{rank}.key' --tls-ca pki/ca.pem)
	local job=("$COLLCTL" barrier -H hosts --join-timeout 5s)
	spawn_rank 0 "${job[@]}" -r 0 "${with[@]}"
	spawn_rank 1 "${job[@]}" -r 1 --secret-file "$SECRET"
	refused_there 'this rank a certificate (--tls-cert): give all ranks the same' \
		'the peer has a certificate (--tls-cert), this rank a secret'
	spawn_rank 0 "${job[@]}" -r 0 --secret-file "$SECRET"
	spawn_rank 1 "${job[@]}" -r 1 "${with[@]}"
	refused_there 'the peer has a certificate (--tls-cert), this rank a secret' \
		'the peer has a secret, this rank a certificate (--tls-cert)'
	spawn_rank 0 "${job[@]}" -r 0 "${with[@]}"
	spawn_rank 1 "${job[@]}" -r 1 --insecure
	refused_there 'it does not use TLS: give --insecure to every rank or to none' 'has --insecure'
	spawn_rank 0 "${job[@]}" -r 0 --insecure
	spawn_rank 1 "${job[@]}" -r 1 "${with[@]}"
	refused_there 'it uses TLS, but this rank has --insecure' '--insecure'
}

@test "65: a member's certificate does not make it another rank: 6, and the right one may still come" {
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 1
	collctl -q ca issue pki --rank 2
	make_hostfile hosts 2
	local job=("$COLLCTL" barrier -H hosts --tls-ca pki/ca.pem)
	spawn_rank 0 "${job[@]}" -r 0 --tls-cert pki/rank-0.pem --tls-key pki/rank-0.key
	wait_listening "$PORT" "${PIDS[0]}"
	# A program that says HELLO as rank 1, with the certificate of rank 2.
	run "$PYTHON" "$ROOT/tests/fault/other_rank.py" "$PORT" pki/ca.pem pki/rank-2.pem pki/rank-2.key 1 2
	assert_output 'ABORT 6: the certificate CN=rank 2 is that of rank 2, not 1'
	spawn_rank 1 "${job[@]}" -r 1 --tls-cert pki/rank-1.pem --tls-key pki/rank-1.key
	wait_ranks
	assert_ranks 2 0
	# And the reverse: another rank where rank 0 should listen.
	openssl s_server -accept "127.0.0.1:$PORT" -cert pki/rank-2.pem -key pki/rank-2.key -CAfile pki/ca.pem -Verify 2 \
		-quiet 3>&- >server.out 2>&1 </dev/null &
	STARTED+=($!)
	wait_listening "$PORT" $!
	run -6 --separate-stderr "${job[@]}" -r 1 --tls-cert pki/rank-1.pem --tls-key pki/rank-1.key
	[[ $stderr == *'the certificate CN=rank 2 is that of rank 2, not 0'* ]]
}

@test "65: the other end's certificate has expired, by its clock or by this rank's" {
	make_ca ca
	leaf ca r0 URI:collctl:rank:0
	leaf ca r1 URI:collctl:rank:1
	leaf ca old0 URI:collctl:rank:0 -startdate 20200101000000Z -enddate 20210101000000Z
	leaf ca early1 URI:collctl:rank:1 -startdate 20900101000000Z -enddate 20910101000000Z
	make_hostfile hosts 2
	openssl s_server -accept "127.0.0.1:$PORT" -cert old0.pem -key old0.key -CAfile ca.pem -Verify 2 -quiet \
		3>&- >server.out 2>&1 </dev/null &
	STARTED+=($!)
	wait_listening "$PORT" $!
	run -6 --separate-stderr collctl barrier -H hosts -r 1 --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem
	[[ $stderr == *"the peer's certificate, CN=old0: expired on 2021-01-01 00:00:00 UTC"* ]]
	kill %?s_server
	wait %?s_server || true
	spawn_rank 0 "$COLLCTL" barrier -H hosts -r 0 --tls-cert r0.pem --tls-key r0.key --tls-ca ca.pem --join-timeout 3s
	wait_listening "$PORT" "${PIDS[0]}"
	run openssl s_client -connect "127.0.0.1:$PORT" -cert early1.pem -key early1.key -CAfile ca.pem -quiet </dev/null
	wait_ranks
	assert_rank 0 5 "the peer's certificate, CN=early1: is valid only from 2090-01-01 00:00:00 UTC on"
}

# ---- encrypted keys ----

@test "encrypted keys: the password by a descriptor, wrong, and without a terminal: 6" {
	local pair=(--tls-cert r0.pem --tls-key locked.key --tls-ca ca.pem)
	make_ca ca
	leaf ca r0 URI:collctl:rank:0
	openssl pkcs8 -topk8 -in r0.key -out locked.key -passout pass:sesame -iter 1000
	chmod 600 locked.key
	run -0 collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(printf 'sesame\n')
	run -0 collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(printf sesame)
	run -6 --separate-stderr collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(echo wrong)
	[[ $stderr == *'locked.key: the password is wrong'* ]]
	run -6 --separate-stderr collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 99
	[[ $stderr == *'file descriptor 99'* ]]
	run -6 --separate-stderr setsid -w "$COLLCTL" barrier -n 1 "${pair[@]}" < <(echo sesame)
	[[ $stderr == *'locked.key: is encrypted'*'--tls-key-password-fd'* ]]
	# The old form, whose header is not encrypted.
	openssl ec -in r0.key -aes128 -passout pass:sesame -out locked.key 2>/dev/null
	grep -q 'Proc-Type: 4,ENCRYPTED' locked.key
	run -0 collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(echo sesame)
}

@test "encrypted keys: a terminal is asked, without echo, up to three times" {
	make_ca ca
	leaf ca r0 URI:collctl:rank:0
	openssl pkcs8 -topk8 -in r0.key -out locked.key -passout pass:sesame -iter 1000
	chmod 600 locked.key
	need_terminal
	run "$PYTHON" - "$COLLCTL" <<-'END'
		import os, pty, sys
		pid, fd = pty.fork()
		if pid == 0:
		    os.execv(sys.argv[1], [sys.argv[1], *"barrier -n 1 --tls-cert r0.pem --tls-key locked.key --tls-ca ca.pem".split()])
		sent, answers = b"", [b"wrong\n", b"sesame\n"]
		while True:
		    try:
		        got = os.read(fd, 4096)
		    except OSError:
		        got = b""
		    if not got:
		        break
		    sent += got
		    if answers and sent.count(b"password of locked.key: ") > 2 - len(answers):
		        os.write(fd, answers.pop(0))
		print("asked", sent.count(b"password of locked.key: "), "echoed", b"sesame" in sent)
		print("code", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	END
	assert_output - <<-'END'
		asked 2 echoed False
		code 0
	END
}
