#include "cmd/json/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/json/fields.h"
#include "lib/base/json.h"
#include "lib/coll/coll.h"

#define DEFS     "#/$defs/"
#define FAILURE  "failure" /* of a command that has not begun */
#define RESULT   "result"  /* of a rank */
#define PART_MAX 64        /* bytes of a component of a field's name */

/* ---- fields ---- */

static json_t *new_object(void)
{
	return json_pack("{s:s, s:{}, s:[], s:b}", "type", "object", "properties", "required",
	                 "additionalProperties", 0);
}

static json_t *reference(const char *name)
{
	return json_pack("{s:o}", "$ref", json_sprintf(DEFS "%s", name));
}

static json_t *type_of(const struct field *f)
{
	json_t *schema = f->type == FIELD_OBJECT   ? new_object()
	                 : f->type == FIELD_RESULT ? reference(RESULT)
	                                           : json_object();
	json_t *type = f->type < FIELD_ANY ? json_string(field_type_name(f->type)) : NULL;

	if (type && f->flags & FIELD_NULL)
		type = json_pack("[o, s]", type, "null");
	if (type)
		json_object_set_new(schema, "type", type);
	if (f->type == FIELD_RESULT && f->flags & FIELD_NULL)
		schema = json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
	json_object_set_new(schema, "description",
	                    f->unit ? json_sprintf("%s [%s]", f->meaning, f->unit)
	                            : json_string(f->meaning));
	return schema;
}

/* The schema of the elements of the array @schema, made if it has none. */
static json_t *elements_of(json_t *schema)
{
	if (!json_object_get(schema, "items"))
		json_object_set_new(schema, "items", new_object());
	return json_object_get(schema, "items");
}

/* Add a member to the schema of an object. @name "*": all members whose names are not known. */
static void add_member(json_t *schema, const char *name, const struct field *f)
{
	if (*name == '*') {
		json_object_set_new(schema, "additionalProperties", type_of(f));
		return;
	}
	json_object_set_new(json_object_get(schema, "properties"), name, type_of(f));
	if (!(f->flags & FIELD_SOMETIMES))
		json_array_append_new(json_object_get(schema, "required"), json_string(name));
}

/* Add the field to the schema of the outermost object. */
static void add_field(json_t *schema, const struct field *f)
{
	for (const char *at = f->name;;) {
		char name[PART_MAX];
		const size_t n = strcspn(at, ".[");

		snprintf(name, sizeof name, "%.*s", (int)n, at);
		at += n;
		if (!*at) {
			add_member(schema, name, f);
			return;
		}
		schema = json_object_get(json_object_get(schema, "properties"), name);
		if (strcmp(at, "[]") == 0) {
			json_object_set_new(schema, "items", type_of(f));
			return;
		}
		if (*at == '[') {
			schema = elements_of(schema);
			at += 2;
		}
		at++;
	}
}

static void add_section(json_t *schema, const struct field_section *s)
{
	for (size_t i = 0; i < s->n; i++)
		add_field(schema, &s->fields[i]);
}

/* ---- outputs ---- */

/* The values of "command". */
static json_t *commands_of(enum output o)
{
	json_t *names = json_array();

	if (output_forms[o].command)
		json_array_append_new(names, json_string(output_forms[o].command));
	for (const struct command *c = commands; !output_forms[o].command && c->name; c++)
		if (c->job == WORK_COLLECTIVE)
			json_array_append_new(names, json_string(c->name));
	return json_pack("{s:o}", "enum", names);
}

/* A command that has failed may have printed only what all commands print. */
static void require_of_success(json_t *schema)
{
	json_t *required = json_array();

	for (size_t i = 0; i < field_sections[0].n; i++)
		if (!strchr(field_sections[0].fields[i].name, '.'))
			json_array_append_new(required,
			                      json_string(field_sections[0].fields[i].name));
	json_object_set_new(schema, "if",
	                    json_pack("{s:{s:{s:b}}}", "properties", "ok", "const", 1));
	json_object_set_new(schema, "then",
	                    json_pack("{s:O}", "required", json_object_get(schema, "required")));
	json_object_set_new(schema, "required", required);
}

static json_t *output_schema(enum output o)
{
	json_t *schema = new_object();

	for (size_t i = 0; i < field_sections_len; i++)
		if (field_sections[i].outputs & OUTPUT_BIT(o))
			add_section(schema, &field_sections[i]);
	if (field_sections[0].outputs & OUTPUT_BIT(o)) {
		json_object_set_new(json_object_get(schema, "properties"), "command",
		                    commands_of(o));
		require_of_success(schema);
	}
	return schema;
}

static json_t *failure_schema(void)
{
	json_t *schema = new_object();

	add_section(schema, &field_sections[0]);
	json_object_set_new(json_object_get(schema, "properties"), "ok",
	                    json_pack("{s:b}", "const", 0));
	return schema;
}

static json_t *any_of(json_t *list)
{
	return json_pack("{s:o}", "anyOf", list);
}

static json_t *make(void)
{
	json_t *defs = json_object(), *all = json_array(), *results = json_array();

	for (enum output o = 0; o < OUTPUTS; o++) {
		const struct output_form *form = &output_forms[o];

		json_object_set_new(defs, form->name, output_schema(o));
		if (form->single)
			json_array_append_new(all, reference(form->name));
		if (form->list)
			json_array_append_new(all, json_pack("{s:s, s:o}", "type", "array", "items",
			                                     reference(form->name)));
		if (o <= OUTPUT_BENCH)
			json_array_append_new(results, reference(form->name));
	}
	json_object_set_new(defs, FAILURE, failure_schema());
	json_array_append_new(all, reference(FAILURE));
	json_array_append_new(results, reference(FAILURE));
	json_object_set_new(defs, RESULT, any_of(results));
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "$schema",
	                 "https://json-schema.org/draft/2020-12/schema", "$id",
	                 "urn:collctl:" COLLCTL_VERSION ":schema", "title",
	                 "what collctl " COLLCTL_VERSION " prints with --json", "anyOf", all,
	                 "$defs", defs);
}

int schema_print(void)
{
	struct err err = ERR_INIT;
	json_t *schema = make();
	char *text = json_lacked_memory() ? NULL : json_text(schema, JSON_INDENT(1));

	json_decref(schema);
	if (!text) {
		err_nomem(&err, "the schema", 0);
		return report(&err, -1);
	}
	puts(text);
	free(text);
	return 0;
}
