# The fields of the lines of JSON, of collctl's commands, that are not among the lines of $known (fields.jq).
def plain: sub("^plan_compare"; "plan") | gsub("\\[\\]"; "");
($known | split("\n") | map(select(. != "") | plain) | INDEX(.)) as $fields |
($fields | keys | map(split(" ")[0]) | INDEX(.)) as $outputs |
[inputs | fromjson? | objects | ., .ranks[]? | objects | select(.command) |
	(if $outputs[.command] then .command else "collective" end) as $output |
	(if .command == "run" then .ranks = [] else . end) |
	paths | map(strings) | join(".") | select(. != "" and (test("^(libraries|values\\.value)\\.") | not)) |
	"\($output) \(.)" | select($fields[.] | not)] | unique[]
