#!/usr/bin/env bats
# What collectives mean is said twice: in C (tests/model) for the unit tests and the simulation, in numpy (oracle.py) for
# the tests of the command. Here the two must say the same.

load helpers

@test "the model in C and numpy agree on every collective, operation and type" {
	local answers=${COLLCTL%/*}/model/answers
	[[ -x $answers ]] || skip "no $answers: make unit"
	"$answers" >said
	"$PYTHON" "$HELPERS_DIR/oracle.py" model <said
}
