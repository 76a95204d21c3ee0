"""Validates what commands print with --json.

  json_schema.py SCHEMA FILE...

Every line of every FILE must be a JSON value that is valid by SCHEMA, which itself must be a valid schema of the
draft that it names. Prints the names of all fields of the lines, as collctl-json(5) has them, sorted, after the name
of the output's schema: "check links[].round_trip.min".
"""

import json
import sys

import jsonschema


def names(value, at, free):
    """The names of the fields below @value, whose name is @at; of those in @free not what is below them."""
    if at in free:
        return
    if isinstance(value, list):
        for element in value:
            if not isinstance(element, dict) or f"{at}[]" in free:
                yield f"{at}[]"
            yield from names(element, f"{at}[]", free)
    elif isinstance(value, dict):
        for key, member in value.items():
            name = f"{at}.{key}".lstrip(".")
            yield name
            yield from names(member, name, free)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    kind = jsonschema.validators.validator_for(schema)
    assert kind is jsonschema.Draft202012Validator, kind
    kind.check_schema(schema)
    valid = {name: kind({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}) for name in schema["$defs"]}
    whole = kind(schema)
    seen, bad = set(), 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for line in lines:
            try:
                value = json.loads(line)
            except ValueError:
                sys.exit(f"{path}: no JSON: {line[:200]}")
            if not whole.is_valid(value):
                bad = 1
                command = value.get("command", "?") if isinstance(value, dict) else "?"
                print(f"{path}: not valid: {line[:2000]}", file=sys.stderr)
                for name in {command, "collective"} & set(valid):
                    for error in valid[name].iter_errors(value):
                        print(f"  by {name}: {'/'.join(map(str, error.path))}: {error.message[:300]}", file=sys.stderr)
            for one in value if isinstance(value, list) else [value]:
                for name in valid:
                    if name != "result" and valid[name].is_valid(one):
                        found = names(one, "", {"ranks[]", "values[].value"} if name in ("run", "info") else set())
                        seen |= {f"{name} libraries.*" if field.startswith("libraries.") else f"{name} {field}" for field in found}
    print("\n".join(sorted(seen)))
    return bad


if __name__ == "__main__":
    sys.exit(main())
