#!/usr/bin/env bats
# Certificates in place of a secret: `ca`, --tls-cert, --tls-key, --tls-ca, --tls-crl; and each refusal.

load helpers

# ---- certificates of openssl ----

new_key() { # FILE [TYPE]
	case ${2:-ec} in
	ec) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null ;;
	p192) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-192 -out "$1" 2>/dev/null ;;
	p384) openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out "$1" 2>/dev/null ;;
	rsa*) openssl genpkey -algorithm RSA -pkeyopt "rsa_keygen_bits:$([[ $2 == rsa ]] && echo 2048 || echo "${2#rsa}")" -out "$1" 2>/dev/null ;;
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
	local ca=(--tls-ca ca.pem)
	[[ " ${*:3} " != *' --tls-ca '* ]] || ca=()
	spawn_rank "$1" "$COLLCTL" barrier -n 2 -r "$1" -R "$STORE" --join-timeout 6s \
		--tls-cert "$2.pem" --tls-key "$2.key" "${ca[@]}" "${@:3}"
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
	run -0 collctl ca issue pki --host 10.0.0.7
	run -0 collctl ca issue pki --rank 12 --days 5
	assert_equal "$(cd pki && stat -c '%n %a' ./*.key | xargs)" \
		'./ca.key 600 ./host-10.0.0.7.key 600 ./host-node7.lab.key 600 ./rank-12.key 600 ./rank-3.key 600'
	assert_equal "$(stat -c %a pki)" 700
	openssl verify -x509_strict -purpose sslserver -CAfile pki/ca.pem pki/rank-*.pem pki/host-*.pem
	openssl verify -x509_strict -purpose sslclient -CAfile pki/ca.pem pki/rank-*.pem pki/host-*.pem
	[[ $(openssl x509 -in pki/ca.pem -noout -subject) == *'the lab'* ]]
	[[ $(openssl x509 -in pki/rank-3.pem -noout -ext subjectAltName) == *URI:collctl:rank:3 ]]
	[[ $(openssl x509 -in pki/host-node7.lab.pem -noout -ext subjectAltName) == *DNS:node7.lab ]]
	[[ $(openssl x509 -in pki/host-10.0.0.7.pem -noout -ext subjectAltName) == *'IP Address:10.0.0.7' ]]
	run -1 openssl x509 -in pki/rank-12.pem -noout -checkend $((6 * 86400))
	run -0 openssl x509 -in pki/rank-12.pem -noout -checkend $((4 * 86400))
	run -0 collctl ca revoke pki pki/rank-3.pem
	run -0 collctl ca revoke pki pki/host-node7.lab.pem pki/rank-3.pem
	openssl crl -in pki/ca.crl -CAfile pki/ca.pem -noout
	assert_equal "$(openssl crl -in pki/ca.crl -noout -text | grep -c 'Serial Number')" 2
	run -2 openssl verify -crl_check -CAfile pki/ca.pem -CRLfile pki/ca.crl pki/rank-3.pem
	run -0 openssl verify -crl_check -CAfile pki/ca.pem -CRLfile pki/ca.crl pki/rank-12.pem
	run -0 collctl ca init other
	run -0 collctl ca issue other --rank 1
	cp pki/ca.crl other/ca.crl
	run -3 --separate-stderr collctl ca revoke other other/rank-1.pem
	[[ $stderr == *'other/ca.crl: this CA has not signed it'* ]]
	cmp pki/ca.crl other/ca.crl
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
	openssl verify -CAfile pki/ca.pem pki/rank-0.pem
	run -3 --separate-stderr collctl ca issue nowhere --rank 0
	[[ $stderr == *'nowhere: No such file'* ]]
	mkdir empty
	run -6 --separate-stderr collctl ca issue empty --rank 0
	[[ $stderr == *'empty/ca.pem: No such file'* ]]
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
	run -2 collctl ca issue pki --rank 1 --host a
	run -2 collctl ca issue pki --rank 1 --name x
	run -2 collctl ca init new --name ''
	run -2 collctl ca init new --rank 1
	run -2 collctl ca revoke pki pki/rank-0.pem --rank 0
	assert_file_not_exist new
}

@test "ca: half a pair is never left, and a rank's certificate is no CA" {
	run -4 prlimit --fsize=300 "$COLLCTL" ca init pki
	assert_equal "$(ls -A pki)" ''
	run -0 collctl ca init pki
	echo mine >pki/rank-2.pem
	run -4 --separate-stderr collctl ca issue pki --rank 2
	[[ $stderr == *'pki/rank-2.pem: exists'* ]]
	assert_file_not_exist pki/rank-2.key
	run -0 collctl ca issue pki --host ca --force
	run -0 collctl ca issue pki --host rank-2
	openssl verify -CAfile pki/ca.pem pki/host-ca.pem
	mkdir false
	cp pki/host-ca.pem false/ca.pem
	cp -p pki/host-ca.key false/ca.key
	run -3 --separate-stderr collctl ca issue false --rank 1
	[[ $stderr == *'false/ca.pem: is not the certificate of a CA'* ]]
}

@test "ca revoke: at the same time nothing is lost; not the CA itself; not without cRLSign" {
	local r revokers=()
	collctl -q ca init pki
	for r in {1..12}; do
		collctl -q ca issue pki --rank "$r"
	done
	for r in {1..12}; do
		"$COLLCTL" -q ca revoke pki "pki/rank-$r.pem" 3>&- &
		revokers+=($!)
	done
	for r in "${revokers[@]}"; do
		wait "$r"
	done
	assert_equal "$(openssl crl -in pki/ca.crl -noout -text | grep -c 'Serial Number')" 12
	[[ $(openssl crl -in pki/ca.crl -noout -text) == *'CRL Number'*' 12'* ]]
	run -3 --separate-stderr collctl ca revoke pki pki/ca.pem
	[[ $stderr == *'pki/ca.pem: is this CA'* ]]
	mkdir weak
	new_key weak/ca.key
	openssl req -x509 -key weak/ca.key -out weak/ca.pem -days 10 -subj /CN=weak -addext keyUsage=keyCertSign
	run -0 collctl ca issue weak --rank 1
	run -3 --separate-stderr collctl ca revoke weak weak/rank-1.pem
	[[ $stderr == *cRLSign* ]]
	assert_file_not_exist weak/ca.crl
}

@test "ca: with an RSA and an Ed25519 key of openssl; two CAs and their lists in one file each" {
	local kind
	for kind in rsa ED25519; do
		mkdir $kind
		new_key $kind/ca.key $kind
		openssl req -x509 -key $kind/ca.key -out $kind/ca.pem -days 10 -subj "/CN=same name"
		collctl -q ca issue $kind --rank 0
		collctl -q ca issue $kind --rank 1
		collctl -q ca revoke $kind $kind/rank-1.pem
	done
	cat rsa/ca.pem ED25519/ca.pem >both.pem
	cat rsa/ca.crl ED25519/ca.crl >both.crl
	for kind in rsa ED25519; do
		run -0 collctl barrier -n 1 --tls-cert $kind/rank-0.pem --tls-key $kind/rank-0.key --tls-ca both.pem --tls-crl both.crl
		refused_here 6 -r 1 --tls-cert $kind/rank-1.pem --tls-key $kind/rank-1.key --tls-ca both.pem --tls-crl both.crl -- \
			"$kind/rank-1.pem: is revoked by both.crl"
	done
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
	refused_here 6 -r auto --tls-cert pki/host-127.0.0.1.pem --tls-key pki/host-127.0.0.1.key --tls-ca pki/ca.pem -- \
		'pki/host-127.0.0.1.pem' 'names one rank'
	refused_here 2 -r auto --tls-cert 'pki/rank-{rank}.pem' --tls-ca pki/ca.pem -- 'pki/rank-{rank}.pem: ' '--rank N'
	refused_here 2 --tls-cert pki/rank-0.pem --tls-key 'pki/rank-{rank}.key' --tls-ca pki/ca.pem -- '{rank}.key: ' '--rank N'
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
	leaf ca bad IP:127.0.0.1,URI:collctl:rank:07
	run -6 --separate-stderr collctl barrier -H hosts -r 0 --tls-cert bad.pem --tls-key bad.key --tls-ca ca.pem
	[[ $stderr == *'bad.pem: '*"is not a rank's number"* ]]
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
	for kind in serverAuth clientAuth; do
		new_key half.key
		sign ca half "subjectAltName=URI:collctl:rank:1"$'\n'"extendedKeyUsage=$kind"
		refused_here 6 -r 1 --tls-cert half.pem --tls-key half.key --tls-ca ca.pem -- 'half.pem: ' 'serverAuth and clientAuth'
	done
	for ((kind = 0; kind < 120; kind++)); do
		cat r1.pem
	done >long.pem
	refused_here 6 -r 1 --tls-cert long.pem --tls-key r1.key --tls-ca ca.pem -- 'long.pem: its certificates have' 'more than 32768'
	# A leaf that signs.
	new_key below.key
	openssl req -new -key below.key -subj /CN=below -out below.csr
	openssl x509 -req -in below.csr -CA r1.pem -CAkey r1.key -set_serial 3 -days 2 -out below.pem \
		-extfile <(echo subjectAltName=URI:collctl:rank:1) 2>/dev/null
	cat below.pem r1.pem >chain.pem
	refused_here 6 -r 1 --tls-cert chain.pem --tls-key below.key --tls-ca ca.pem -- 'chain.pem: its issuer CN=r1 is refused: '
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

@test "65: keys and signatures that are too weak for TLS: 6, before it connects" {
	make_ca ca
	new_key small.key rsa1024
	sign ca small subjectAltName=URI:collctl:rank:1
	refused_here 6 -r 1 --tls-cert small.pem --tls-key small.key --tls-ca ca.pem -- \
		'small.pem: has a key of 1024 bits, which' 'at least 2048 bits'
	new_key curve.key p192
	sign ca curve subjectAltName=URI:collctl:rank:1
	refused_here 6 -r 1 --tls-cert curve.pem --tls-key curve.key --tls-ca ca.pem -- 'curve.pem: has a key of 192 bits'
	leaf ca hash URI:collctl:rank:1 -md sha1
	refused_here 6 -r 1 --tls-cert hash.pem --tls-key hash.key --tls-ca ca.pem -- \
		'hash.pem: is signed with ecdsa-with-SHA1, which' 'with SHA-256'
	# The CA's own key; its own signature is trusted as it is.
	new_key weak.key rsa1024
	openssl req -x509 -sha1 -key weak.key -out weak.pem -days 10 -subj '/CN=weak' 2>/dev/null
	cp -r ca.db weak.db
	sed 's/ca\.db/weak.db/' ca.db/conf >weak.db/conf
	leaf weak below URI:collctl:rank:1
	refused_here 6 -r 1 --tls-cert below.pem --tls-key below.key --tls-ca weak.pem -- \
		'below.pem: its issuer CN=weak has a key of 1024 bits'
	# A kind of key that TLS has no use for.
	openssl genpkey -algorithm X25519 -out kex.key
	chmod 600 kex.key
	openssl req -new -key ca.key -subj /CN=kex -out kex.csr
	openssl x509 -req -in kex.csr -force_pubkey <(openssl pkey -in kex.key -pubout) -CA ca.pem -CAkey ca.key \
		-set_serial 9 -days 2 -out kex.pem -extfile <(echo subjectAltName=URI:collctl:rank:1) 2>/dev/null
	refused_here 6 -r 1 --tls-cert kex.pem --tls-key kex.key --tls-ca ca.pem -- 'kex.pem: TLS cannot use it'
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
@test "65: what only the others can see: another CA, revoked there, a kind of key" {
	make_ca ca
	make_ca other
	cat ca.pem other.pem >both.pem
	leaf ca r0 URI:collctl:rank:0
	leaf ca r1 URI:collctl:rank:1
	leaf other stranger URI:collctl:rank:1
	openssl ecparam -name secp256k1 -genkey -noout -out odd.key
	chmod 600 odd.key
	sign ca odd 'subjectAltName=URI:collctl:rank:1'
	start_serve
	certified 0 r0
	certified 1 stranger --tls-ca both.pem
	refused_there "the peer's certificate, CN=stranger: its issuer, CN=CA of other, is not a CA in ca.pem (--tls-ca)" \
		"refuses this rank's certificate: the CA in the peer's --tls-ca has not signed it"
	certified 0 r0 --tls-ca both.pem
	certified 1 stranger --tls-ca other.pem
	refused_there "refuses this rank's certificate: the CA in the peer's --tls-ca has not signed it" \
		"the peer's certificate, CN=r0: its issuer, CN=CA of ca, is not a CA in other.pem (--tls-ca)"
	openssl ca -revoke r1.pem -config ca.db/conf -cert ca.pem -keyfile ca.key 2>/dev/null
	list_of ca
	certified 0 r0 --tls-crl ca.crl
	certified 1 r1
	refused_there "the peer's certificate, CN=r1: is revoked by ca.crl" \
		"refuses this rank's certificate: it is revoked in the peer's --tls-crl"
	certified 0 r0
	certified 1 odd
	refused_there 'a certificate whose key TLS 1.3 cannot use' "TLS 1.3 cannot use the key of this rank's certificate"
}

@test "65: an issuer that the user trusts needs no list of the one above it" {
	make_ca ca
	new_key middle.key
	sign ca middle $'basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\nsubjectKeyIdentifier=hash'
	mkdir pki
	cp middle.pem pki/ca.pem
	cp -p middle.key pki/ca.key
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 1
	collctl -q ca issue pki --rank 2
	collctl -q ca revoke pki pki/rank-2.pem
	run -0 collctl run -n 2 -- barrier --tls-cert 'pki/rank-{rank}.pem' --tls-key 'pki/rank-{rank}.key' --tls-ca middle.pem \
		--tls-crl pki/ca.crl
	refused_here 6 -r 2 -n 3 --tls-cert pki/rank-2.pem --tls-key pki/rank-2.key --tls-ca middle.pem --tls-crl pki/ca.crl -- \
		'pki/rank-2.pem: is revoked by pki/ca.crl'
}

@test "8, 65: another size with certificates: 7, as with a secret" {
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 3
	start_serve
	spawn_rank 0 "$COLLCTL" barrier -n 2 -r 0 -R "$STORE" --tls-cert pki/rank-0.pem --tls-key pki/rank-0.key --tls-ca pki/ca.pem
	spawn_rank 3 "$COLLCTL" barrier -n 4 -r 3 -R "$STORE" --tls-cert pki/rank-3.pem --tls-key pki/rank-3.key --tls-ca pki/ca.pem
	wait_ranks
	assert_rank 0 7 '--size 4 differs from 2'
	assert_rank 3 7 '--size 4 differs from 2'
}

@test "47, 65: the port of a stale record belongs to another TLS server: rank 0 replaces the record" {
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	collctl -q ca issue pki --rank 1
	make_ca other
	leaf other server DNS:server
	start_serve
	local job=("$COLLCTL" barrier -n 2 -R "$STORE" --tls-cert 'pki/rank-{rank}.pem' --tls-key 'pki/rank-{rank}.key' --tls-ca pki/ca.pem)
	spawn_rank 0 "${job[@]}" -r 0
	JOB=default wait_record
	kill -KILL "${PIDS[0]}"
	wait_ranks
	PORT=$(record | jq -r '.addr | split(":")[-1]')
	openssl s_server -accept "127.0.0.1:$PORT" -cert server.pem -key server.key -quiet 3>&- >server.out 2>&1 </dev/null &
	STARTED+=($!)
	wait_listening "$PORT" $!
	spawn_rank 1 "${job[@]}" -r 1 -vv
	# Rank 1 has met the stranger; its patience is a few seconds.
	until grep -q "the peer's certificate" 1.err; do kill -0 "${PIDS[1]}"; done
	spawn_rank 0 "${job[@]}" -r 0
	wait_ranks
	assert_ranks 2 0
}

@test "serve takes no certificate from the ranks' variables" {
	export COLLCTL_TLS_CERT='pki/rank-{rank}.pem' COLLCTL_TLS_KEY='pki/rank-{rank}.key' COLLCTL_TLS_CA=pki/ca.pem
	collctl -q ca init pki
	collctl -q ca issue pki --rank 0
	start_serve
	assert_no_record
	run -0 collctl barrier -n 1 -r 0 -R "$STORE"
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
	refused_there 'the peer has a secret in place of a certificate' \
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
	run -0 collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(printf 'sesame\r\n')
	run -6 --separate-stderr collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(echo wrong)
	[[ $stderr == *'locked.key: the password is wrong'* ]]
	run -6 --separate-stderr collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 99
	[[ $stderr == *'file descriptor 99'* ]]
	run -6 --separate-stderr setsid -w "$COLLCTL" barrier -n 1 "${pair[@]}" < <(echo sesame)
	[[ $stderr == *'locked.key: is encrypted'*'--tls-key-password-fd'* ]]
	# A CA's key.
	mkdir pki
	cp ca.pem pki/ca.pem
	openssl pkcs8 -topk8 -in ca.key -out pki/ca.key -passout pass:sesame -iter 1000
	chmod 600 pki/ca.key
	run -0 collctl ca issue pki --rank 4 --tls-key-password-fd 5 5< <(echo sesame)
	run -6 setsid -w "$COLLCTL" ca issue pki --rank 5
	# The old form, whose header is not encrypted.
	openssl ec -in r0.key -aes128 -passout pass:sesame -out locked.key 2>/dev/null
	grep -q 'Proc-Type: 4,ENCRYPTED' locked.key
	run -0 collctl barrier -n 1 "${pair[@]}" --tls-key-password-fd 5 5< <(echo sesame)
}

# at_prompt COMMAND... @@ ANSWER...: COMMAND on a terminal; each prompt gets the next ANSWER: a line, or a
# signal as ^NAME (^C is typed). Prints how often it asked, whether an answer was seen, and the exit code.
at_prompt() {
	need_terminal
	run "$PYTHON" - "$@" <<-'END'
		import os, pty, signal, sys
		at = sys.argv.index("@@")
		command, answers = sys.argv[1:at], sys.argv[at + 1:]
		pid, fd = pty.fork()
		if pid == 0:
		    signal.signal(signal.SIGINT, signal.SIG_DFL)
		    os.execv(command[0], command)
		sent, asked = b"", 0
		while True:
		    try:
		        got = os.read(fd, 4096)
		    except OSError:
		        got = b""
		    if not got:
		        break
		    sent += got
		    while sent.count(b"password of locked.key: ") > asked and answers:
		        asked += 1
		        answer = answers.pop(0)
		        if answer == "^C":
		            os.write(fd, b"\x03")
		        elif answer.startswith("^"):
		            os.kill(pid, getattr(signal, answer[1:]))
		        else:
		            os.write(fd, answer.encode() + b"\n")
		code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
		print("asked", sent.count(b"password of locked.key: "), "seen", b"sesame" in sent, "code", code)
	END
}

@test "encrypted keys: a terminal is asked, without echo, up to three times; signals end it" {
	local job=("$COLLCTL" barrier -n 1 --tls-cert r0.pem --tls-key locked.key --tls-ca ca.pem)
	make_ca ca
	leaf ca r0 URI:collctl:rank:0
	openssl pkcs8 -topk8 -in r0.key -out locked.key -passout pass:sesame -iter 1000
	chmod 600 locked.key
	at_prompt "${job[@]}" @@ wrong sesame
	assert_output 'asked 2 seen False code 0'
	at_prompt "${job[@]}" @@ wrong '' sesame2
	assert_output 'asked 3 seen False code 6'
	at_prompt "${job[@]}" @@ ^C
	assert_output 'asked 1 seen False code -2'
	at_prompt "${job[@]}" @@ wrong ^SIGTERM
	assert_output 'asked 2 seen False code -15'
	at_prompt "${job[@]}" --retry 2 @@ sesame
	assert_output 'asked 0 seen False code 6'
	at_prompt "$COLLCTL" run -n 1 -- "${job[@]:1:1}" "${job[@]:4}" @@ sesame
	assert_output 'asked 0 seen False code 6'
}
