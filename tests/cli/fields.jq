# The names of the fields that a JSON Schema of collctl has, as collctl-json(5) has them, after the name of the output's schema.
def names($at):
	(.properties // {} | to_entries[] | "\($at)\(.key)" as $name | $name, (.value | names("\($name)."))),
	(.items // empty | if .properties then names("\($at[:-1])[].") else "\($at[:-1])[]" end),
	(.additionalProperties | objects | "\($at)*");
."$defs" | to_entries[] | select(.key | IN("failure", "result") | not) | "\(.key) \(.value | names(""))"
