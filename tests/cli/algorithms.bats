#!/usr/bin/env bats
# algorithms: the list.

load helpers

# bats test_tags=smoke
@test "--json: an array of objects with what the list is for" {
	collctl algorithms --json >list.json
	assert_equal "$(json list.json type)" array
	assert_equal "$(json list.json 'map(has("collective") and has("algorithm") and has("steps") and has("bytes")
		and has("restrictions") and has("source")) | all')" true
	assert_equal "$(json list.json 'map(.collective + "/" + .algorithm) | length == (unique | length)')" true
}

@test "text: every algorithm on a line of its own with its collective" {
	local c a
	collctl algorithms >list.txt
	all_algorithms >names
	while read -r c a; do
		grep -qE "(^|[[:space:]])$a([[:space:]]|$)" list.txt || fail "no $c $a"
	done <names
}
