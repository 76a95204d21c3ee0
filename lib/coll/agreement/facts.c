/* The facts of a collective: values that must be the same on all ranks, named as on the command
 * line. See collective.h. */
#include <stdio.h>
#include <string.h>

#include "lib/coll/agreement/request_facts.h"
#include "lib/coll/collective.h"

/* tensor_at: tensor @i, which all ranks have; with its digest once that is known. */
static void tensor_entry(void *ctx, size_t i, struct tensor_entry *out)
{
	const struct collective *c = ctx;
	const struct agreement *a = &c->agreed;
	*out = (struct tensor_entry){
	        .tensor = &a->tensors[i].tensor,
	        .input = a->tensors[i].input,
	        .ninputs = !c->request->each || a->content == CONTENT_BYTES ? 0
	                   : a->content == CONTENT_ARRAYS                   ? a->nvectors
	                                                                    : c->transfer.ninputs,
	        .any_rows = request_any_rows(c->request),
	        .digest = c->transfer.sealing ? c->transfer.digests[i] : NULL,
	};
}

/* "(*, 4)" if the number of rows may differ between ranks. */
static void shape_fact(struct intent *in, const struct tensor *t, bool any_rows)
{
	char shape[ARRAY_SHAPE_TEXT], text[ARRAY_SHAPE_TEXT];
	tensor_shape_text(t, shape);
	snprintf(text, sizeof text, "(*%s", strchr(shape, ',') ? strchr(shape, ',') : ")");
	intent_add(in, "shape", any_rows ? text : shape);
}

static void number_fact(struct intent *in, const char *name, int value)
{
	char text[16];
	snprintf(text, sizeof text, "%d", value);
	intent_add(in, name, text);
}

/* Add facts of the inputs: one array, or a table of tensors. None for a broadcast of files, because
 * only the root has them. */
static int input_facts(const struct collective *c, struct intent *in, struct err *err)
{
	const struct agreement *a = &c->agreed;
	if (!c->transfer.ninputs)
		return 0;
	snprintf(in->subject, sizeof in->subject, "%s",
	         c->request->each ? c->request->command : c->transfer.inputs[0].path);
	if (a->content == CONTENT_BYTES || a->content == CONTENT_PIECES)
		return 0;
	bool one_array = a->ntensors == 1 && !*a->tensors[0].tensor.name;
	if (c->request->each)
		number_fact(in, "number of inputs", c->transfer.ninputs);
	tensor_content_fact(in, one_array);
	if (!one_array)
		return tensor_table_fact(&c->table, in, err);
	intent_add(in, "dtype", dtype_name(a->tensors[0].tensor.dtype));
	shape_fact(in, &a->tensors[0].tensor, request_any_rows(c->request));
	return 0;
}

int agree_facts(struct collective *c, struct intent *in, struct err *err)
{
	const struct coll_request *r = c->request;
	const struct coll_rules *rules = coll_rules(r->kind);
	c->table = (struct tensor_table){.n = c->agreed.ntensors, .at = tensor_entry, .ctx = c};
	if (input_facts(c, in, err) < 0)
		return -1;
	origin_fact(c, in);
	outer_fact(c, in);
	if (r->kind == COLL_BROADCAST)
		intent_add(in, "--delta", r->delta ? "given" : "not given");
	/* What is left out at the root is not removed elsewhere. */
	if (r->deletes && (request_fact(r, request_setting(r, "include"), in, err) < 0 ||
	                   request_fact(r, request_setting(r, "exclude"), in, err) < 0))
		return -1;
	if (rules->rooted)
		number_fact(in, "--root", c->agreed.root);
	/* Of a scatter only the root's counts matter, but who gives some must give the same. */
	if (r->kind == COLL_REDUCE_SCATTER ||
	    (r->kind == COLL_SCATTER && (collective_is_root(c) || r->counts)))
		return request_fact(r, request_setting(r, "counts"), in, err);
	return 0;
}
