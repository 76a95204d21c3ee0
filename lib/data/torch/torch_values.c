#include "lib/data/torch/torch_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/offload.h"
#include "lib/base/text.h"

#define DEPTH_MAX 100 /* of dicts in dicts */
#define STEPS     16  /* for each byte of the pickle: shared values are visited again */

/* ---- what may be named ---- */

#define ANY NULL /* module: versions of torch have it in different ones */

static const struct {
	const char *module, *name;
} permitted[] = {
        {"collections", "OrderedDict"},
        {"collections", "defaultdict"},
        {"__builtin__", "set"},
        {"builtins", "set"},
        {"__builtin__", "dict"},
        {"builtins", "dict"},
        {"__builtin__", "list"},
        {"builtins", "list"},
        {"_codecs", "encode"},
        {"torch", "Size"},
        {"torch", "device"},
        {"torch._utils", "_rebuild_tensor"},
        {"torch._utils", "_rebuild_tensor_v2"},
        {"torch._utils", "_rebuild_tensor_v3"},
        {"torch._utils", "_rebuild_parameter"},
        {"torch._utils", "_rebuild_parameter_with_state"},
        {"torch._utils", "_rebuild_wrapper_subclass"},
        {"torch._utils", "_rebuild_sparse_tensor"}, /* refused by name */
        {"torch._utils", "_rebuild_sparse_csr_tensor"},
        {"torch._utils", "_rebuild_qtensor"},
        {"torch._tensor", "_rebuild_from_type_v2"},
        {"torch.nn.parameter", "Parameter"},
        {"torch.nn.parameter", "Buffer"},
        {"torch", "Tensor"},
        {"torch.serialization", "_get_layout"},
        {"torch.storage", "UntypedStorage"},
        {ANY, "DTensor"},
        {ANY, "DTensorSpec"},
        {ANY, "TensorMeta"},
        {ANY, "TensorMetadata"},
        {ANY, "ShardOrderEntry"},
        {ANY, "Shard"},
        {ANY, "Replicate"},
        {ANY, "DeviceMesh"},
        {ANY, "_MeshLayout"},
        {ANY, "_FlatLayout"},
};

/* Storages of before the untyped one: the class says the type. */
static const struct {
	const char *name;
	enum dtype dtype;
} storages[] = {
        {"FloatStorage", DTYPE_F32},        {"DoubleStorage", DTYPE_F64},
        {"HalfStorage", DTYPE_F16},         {"BFloat16Storage", DTYPE_BF16},
        {"LongStorage", DTYPE_I64},         {"IntStorage", DTYPE_I32},
        {"ShortStorage", DTYPE_I16},        {"CharStorage", DTYPE_I8},
        {"ByteStorage", DTYPE_U8},          {"BoolStorage", DTYPE_BOOL},
        {"ComplexFloatStorage", DTYPE_C64}, {"ComplexDoubleStorage", DTYPE_C128},
        {"QInt8Storage", DTYPE_NONE},       {"QUInt8Storage", DTYPE_NONE},
        {"QInt32Storage", DTYPE_NONE},      {"QUInt4x2Storage", DTYPE_NONE},
        {"QUInt2x4Storage", DTYPE_NONE},
};

/* torch's names of types. NONE: collctl lacks the type. */
static const struct {
	const char *name;
	enum dtype dtype;
} dtypes[] = {
        {"float32", DTYPE_F32},
        {"float64", DTYPE_F64},
        {"float16", DTYPE_F16},
        {"bfloat16", DTYPE_BF16},
        {"int64", DTYPE_I64},
        {"int32", DTYPE_I32},
        {"int16", DTYPE_I16},
        {"int8", DTYPE_I8},
        {"uint64", DTYPE_U64},
        {"uint32", DTYPE_U32},
        {"uint16", DTYPE_U16},
        {"uint8", DTYPE_U8},
        {"bool", DTYPE_BOOL},
        {"complex64", DTYPE_C64},
        {"complex128", DTYPE_C128},
        {"float8_e4m3fn", DTYPE_F8E4M3},
        {"float8_e5m2", DTYPE_F8E5M2},
        {"float8_e8m0fnu", DTYPE_F8_E8M0},
        {"float8_e4m3fnuz", DTYPE_F8_E4M3FNUZ},
        {"float8_e5m2fnuz", DTYPE_F8_E5M2FNUZ},
        {"complex32", DTYPE_NONE},
        {"float4_e2m1fn_x2", DTYPE_NONE},
        {"quint8", DTYPE_NONE},
        {"qint8", DTYPE_NONE},
        {"qint32", DTYPE_NONE},
        {"quint4x2", DTYPE_NONE},
        {"quint2x4", DTYPE_NONE},
        {"preserve_format", DTYPE_NONE},
        {"contiguous_format", DTYPE_NONE},
        {"channels_last", DTYPE_NONE},
        {"channels_last_3d", DTYPE_NONE},
};
#define LEN(array) (sizeof(array) / sizeof *(array))

static bool is(const char *text, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(text, name, len) == 0;
}

static bool begins(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

bool torch_permits(const struct pickle_global *g)
{
	for (size_t i = 0; i < LEN(permitted); i++) {
		if (!is(g->name, g->name_len, permitted[i].name))
			continue;
		if (permitted[i].module ? is(g->module, g->module_len, permitted[i].module)
		                        : begins(g->module, g->module_len, "torch."))
			return true;
	}
	if (!is(g->module, g->module_len, "torch"))
		return false;
	for (size_t i = 0; i < LEN(storages); i++)
		if (is(g->name, g->name_len, storages[i].name))
			return true;
	for (size_t i = 0; i < LEN(dtypes); i++)
		if (is(g->name, g->name_len, dtypes[i].name))
			return true;
	return false;
}

enum dtype torch_dtype(const char *name, size_t len)
{
	for (size_t i = 0; i < LEN(dtypes); i++)
		if (is(name, len, dtypes[i].name))
			return dtypes[i].dtype;
	return DTYPE_NONE;
}

/* ---- one tensor ---- */

struct walk {
	const struct torch_visitor *visitor;
	char name[TORCH_NAME_MAX];
	uint64_t steps;                     /* that are left */
	const struct torch_tensor *dtensor; /* whose local tensor is visited; NULL: none */
	struct err *err;
};

static int refuse(struct walk *w, const char *why)
{
	char plain[256];
	return err_set(w->err, ERR_INPUT, "tensor '%s': %s",
	               text_escape(plain, sizeof plain, w->name), why);
}

static bool calls(const struct pickle_value *v, const char *module, const char *name)
{
	return v && v->kind == PICKLE_RECORD && pickle_is_global(v->record->callable, module, name);
}

/* Argument @i of a record; NULL: it has fewer. */
static const struct pickle_value *argument(const struct pickle_value *record, uint32_t i)
{
	const struct pickle_value *a = record->record->arguments;
	return a && a->kind == PICKLE_TUPLE && i < a->n ? a->items[i] : NULL;
}

/* The items of a tuple, or of a torch.Size; NULL: neither. */
static const struct pickle_value *tuple_of(const struct pickle_value *v)
{
	if (calls(v, "torch", "Size"))
		v = argument(v, 0);
	return v && (v->kind == PICKLE_TUPLE || v->kind == PICKLE_LIST) ? v : NULL;
}

bool torch_numbers(const struct pickle_value *v, uint64_t *numbers, int *n)
{
	v = tuple_of(v);
	if (!v || v->n > ARRAY_MAX_DIMS)
		return false;
	*n = (int)v->n;
	for (uint32_t i = 0; i < v->n; i++)
		if (!pickle_number(v->items[i], &numbers[i]))
			return false;
	return true;
}

/* ('storage', class, key, location, elements). The class gives the type but for the untyped one. */
static int read_storage(struct walk *w, const struct pickle_value *v, struct torch_tensor *t)
{
	const struct pickle_value *id =
	        v && v->kind == PICKLE_FOREIGN ? v->record->arguments : NULL;
	uint64_t elements;
	if (!id || id->kind != PICKLE_TUPLE || id->n < 5 ||
	    !pickle_is_text(id->items[0], "storage") || id->items[1]->kind != PICKLE_GLOBAL ||
	    id->items[2]->kind != PICKLE_TEXT || !pickle_number(id->items[4], &elements))
		return refuse(w, "its storage is described in an unknown way");
	const struct pickle_global *class = id->items[1]->global;
	size_t width = 1;
	t->dtype = DTYPE_NONE;
	if (!is(class->name, class->name_len, "UntypedStorage")) {
		for (size_t i = 0; i < LEN(storages); i++)
			if (is(class->name, class->name_len, storages[i].name))
				t->dtype = storages[i].dtype;
		width = dtype_size(t->dtype);
		if (!width)
			return refuse(w, "is quantised, which is not read: save it dequantised");
	}
	t->storage = id->items[2]->text;
	t->storage_len = id->items[2]->n;
	if (__builtin_mul_overflow(elements, width, &t->storage_bytes))
		return refuse(w, "its storage is too large");
	return 0;
}

/* Does the tensor lie in its storage? */
static int check_extent(struct walk *w, struct torch_tensor *t)
{
	struct array_info info = {.dtype = t->dtype, .ndim = t->ndim};
	uint64_t last = t->offset, end;
	memcpy(info.shape, t->shape, sizeof info.shape);
	if (array_count(&info))
		return refuse(w, "is too large");
	t->count = info.count;
	if (!t->count)
		return 0;
	for (int i = 0; i < t->ndim; i++) {
		uint64_t step;
		if (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &step) ||
		    __builtin_add_overflow(last, step, &last))
			return refuse(w, "its strides leave its storage");
	}
	if (__builtin_add_overflow(last, 1, &end) ||
	    __builtin_mul_overflow(end, dtype_size(t->dtype), &end) || end > t->storage_bytes)
		return refuse(w, "its strides leave its storage");
	return 0;
}

/* Is the metadata of a tensor nothing, or a dict without a value that is set? */
static bool is_empty(const struct pickle_value *metadata)
{
	if (!metadata || metadata->kind == PICKLE_NONE)
		return true;
	if (metadata->kind != PICKLE_DICT)
		return false;
	for (uint32_t i = 0; i + 1 < metadata->n; i += 2)
		if (metadata->items[i + 1]->kind != PICKLE_BOOL || metadata->items[i + 1]->number)
			return false;
	return true;
}

/* Is the local tensor @t the piece that its DTensor says? */
static int check_piece(struct walk *w, struct torch_tensor *t)
{
	const struct torch_tensor *d = w->dtensor;
	if (t->ndim != d->ndim || t->dtype != d->dtype ||
	    memcmp(t->shape, d->shape, (size_t)t->ndim * sizeof *t->shape) != 0)
		return refuse(w, "its local tensor is not the piece that its placements say");
	t->piece = true;
	memcpy(t->whole, d->whole, sizeof t->whole);
	memcpy(t->first, d->first, sizeof t->first);
	return 0;
}

/* _rebuild_tensor(storage, offset, size, stride); _v2 has requires_grad and hooks besides, _v3 also
 * the type, because its storage is untyped. */
static int read_tensor(struct walk *w, const struct pickle_value *v, bool typed)
{
	struct torch_tensor t = {0};
	int strides;
	if (read_storage(w, argument(v, 0), &t))
		return -1;
	if (typed) {
		const struct pickle_value *dtype = argument(v, 6);
		if (!dtype || dtype->kind != PICKLE_GLOBAL)
			return refuse(w, "it has no type");
		t.dtype = torch_dtype(dtype->global->name, dtype->global->name_len);
	}
	if (!dtype_size(t.dtype))
		return refuse(w, "its type is not one that collctl has");
	if (!is_empty(argument(v, typed ? 7 : 6)))
		return refuse(w, "is a view that conjugates or negates: save it by "
		                 ".resolve_conj().resolve_neg()");
	if (!pickle_number(argument(v, 1), &t.offset) ||
	    !torch_numbers(argument(v, 2), t.shape, &t.ndim) ||
	    !torch_numbers(argument(v, 3), t.stride, &strides) || strides != t.ndim)
		return refuse(w, "its shape or its strides are malformed");
	if (check_extent(w, &t) || (w->dtensor && check_piece(w, &t)))
		return -1;
	return w->visitor->tensor(w->visitor->ctx, w->name, &t, w->err);
}

/* ---- all values ---- */

static int visit(struct walk *w, const struct pickle_value *v, int depth);

/* Append ".KEY" to the name. */
static int name_push(struct walk *w, const char *key, size_t len)
{
	const size_t at = strlen(w->name), dot = at > 0;
	if (len + dot >= sizeof w->name - at)
		return err_set(w->err, ERR_INPUT, "'%.200s...': the name is too long", w->name);
	if (dot)
		w->name[at] = '.';
	memcpy(w->name + at + dot, key, len);
	w->name[at + dot + len] = '\0';
	return 0;
}

static int bad_key(struct walk *w)
{
	char plain[256];
	return err_set(w->err, ERR_INPUT, "'%s': has a key that is no text and no number",
	               text_escape(plain, sizeof plain, w->name));
}

bool torch_is_text(const char *s, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		char c[5] = {0}; /* text_char reads up to a NUL */
		uint32_t code;
		memcpy(c, s + i, n - i < 4 ? n - i : 4);
		len = text_char(c, &code);
		if (!len)
			return false;
	}
	return true;
}

static int visit_under(struct walk *w, const struct pickle_value *key, const struct pickle_value *v,
                       int depth)
{
	char number[24];
	const size_t before = strlen(w->name);
	int ret;
	if (key->kind == PICKLE_TEXT && torch_is_text(key->text, key->n)) {
		ret = name_push(w, key->text, key->n);
	} else if (key->kind == PICKLE_INT || key->kind == PICKLE_BOOL) {
		snprintf(number, sizeof number, "%" PRId64, key->number);
		ret = name_push(w, number, strlen(number));
	} else {
		return bad_key(w);
	}
	if (ret == 0)
		ret = visit(w, v, depth + 1);
	w->name[before] = '\0';
	return ret;
}

static int visit_dict(struct walk *w, const struct pickle_value *dict, int depth)
{
	for (uint32_t i = 0; i + 1 < dict->n; i += 2)
		if (visit_under(w, dict->items[i], dict->items[i + 1], depth))
			return -1;
	return 0;
}

static int visit_list(struct walk *w, const struct pickle_value *list, int depth)
{
	for (uint32_t i = 0; i < list->n; i++) {
		const struct pickle_value key = {.kind = PICKLE_INT, .number = i};
		if (visit_under(w, &key, list->items[i], depth))
			return -1;
	}
	return 0;
}

static int visit_other(struct walk *w, const struct pickle_value *v)
{
	return w->visitor->other ? w->visitor->other(w->visitor->ctx, w->name, v, w->err) : 0;
}

/* A dict made of pairs, as OrderedDict([[k, v], ...]). */
static int visit_pairs(struct walk *w, const struct pickle_value *pairs, int depth)
{
	for (uint32_t i = 0; pairs && tuple_of(pairs) && i < pairs->n; i++) {
		const struct pickle_value *pair = tuple_of(pairs->items[i]);
		if (!pair || pair->n != 2)
			return bad_key(w);
		if (visit_under(w, pair->items[0], pair->items[1], depth))
			return -1;
	}
	return 0;
}

/* The state of a record as a dict: BUILD has it alone, or behind None in a tuple. */
static const struct pickle_value *dict_of(const struct pickle_value *state)
{
	if (state && state->kind == PICKLE_TUPLE && state->n == 2)
		state = state->items[1];
	return pickle_fields(state);
}

static const struct pickle_value *field(const struct pickle_value *record, const char *name)
{
	return record && record->kind == PICKLE_RECORD
	               ? pickle_get(dict_of(record->record->state), name)
	               : NULL;
}

/* Cut the piece of one axis of the mesh: torch gives each of @parts the same number of elements,
 * rounded up, and fewer to the last ones. */
static void cut(struct torch_tensor *t, uint64_t axis, uint64_t part, uint64_t parts)
{
	const uint64_t n = t->shape[axis], each = n / parts + (n % parts != 0);
	const uint64_t first = each && part > n / each ? n : part * each < n ? part * each : n;
	t->first[axis] += first;
	t->shape[axis] = n - first < each ? n - first : each;
}

/* Are the axes of the mesh, which cut a dimension one after the other, in their usual order? */
static bool usual_order(const struct pickle_value *order)
{
	const struct pickle_value *entries = tuple_of(order);
	if (!order || order->kind == PICKLE_NONE)
		return true;
	for (uint32_t i = 0; entries && i < entries->n; i++) {
		const struct pickle_value *e = entries->items[i];
		uint64_t axes[ARRAY_MAX_DIMS];
		int n = 0;
		if (!pickle_is_record(e, "ShardOrderEntry") ||
		    !torch_numbers(argument(e, 1), axes, &n))
			return false;
		for (int k = 1; k < n; k++)
			if (axes[k] <= axes[k - 1])
				return false;
	}
	return entries;
}

/* The length of an axis of a mesh: a number, or the product of several. */
static bool axis_length(const struct pickle_value *v, uint64_t *length)
{
	uint64_t factors[ARRAY_MAX_DIMS];
	int n = 0;
	if (pickle_number(v, length))
		return true;
	if (!torch_numbers(v, factors, &n))
		return false;
	*length = 1;
	for (int i = 0; i < n; i++)
		if (__builtin_mul_overflow(*length, factors[i], length))
			return false;
	return true;
}

/* The lengths of a mesh's axes, as versions of torch save them: one layout for each axis, one for
 * all axes, or a tensor of ranks. */
static bool mesh_shape(const struct pickle_value *mesh, uint64_t *shape, int *n)
{
	const struct pickle_value *layout = field(mesh, "_layout"), *ranks = field(mesh, "mesh");
	const struct pickle_value *axes = tuple_of(field(layout, "axes"));
	const struct pickle_value *all = field(layout, "shape");
	if (!axes && !all)
		return calls(ranks, "torch._utils", "_rebuild_tensor_v2") &&
		       torch_numbers(argument(ranks, 2), shape, n);
	if (!axes && pickle_number(all, &shape[0])) {
		*n = 1;
		return true;
	}
	const struct pickle_value *each = axes ? axes : tuple_of(all);
	if (!each || each->n > ARRAY_MAX_DIMS)
		return false;
	*n = (int)each->n;
	for (int i = 0; i < *n; i++)
		if (!axis_length(axes ? field(each->items[i], "shape") : each->items[i], &shape[i]))
			return false;
	return true;
}

/* The piece that the specification of a DTensor gives to its rank. */
static int place_piece(struct walk *w, const struct pickle_value *spec, struct torch_tensor *t)
{
	const struct pickle_value *mesh = field(spec, "mesh");
	const struct pickle_value *placements = tuple_of(field(spec, "placements"));
	uint64_t part[ARRAY_MAX_DIMS], parts[ARRAY_MAX_DIMS];
	int n = 0, axes = 0;
	if (!placements || !torch_numbers(field(mesh, "_coordinate_on_dim"), part, &n) ||
	    !mesh_shape(mesh, parts, &axes) || placements->n != (uint32_t)n || axes != n)
		return refuse(w, "is a DTensor whose mesh is described in an unknown way");
	if (!usual_order(field(spec, "shard_order")))
		return refuse(w, "is a DTensor whose shards are in an order that is not read");
	const struct pickle_value *order = field(spec, "shard_order");
	const bool unordered = !order || order->kind == PICKLE_NONE;
	uint64_t sharded = 0; /* a bit for each dimension */
	for (int i = 0; i < n; i++) {
		const struct pickle_value *p = placements->items[i];
		uint64_t axis;
		if (pickle_is_record(p, "Replicate"))
			continue;
		if (!pickle_is_record(p, "Shard") || !pickle_number(field(p, "dim"), &axis) ||
		    axis >= (uint64_t)t->ndim)
			return refuse(w, "is a DTensor that is neither sharded nor replicated");
		if (!parts[i] || part[i] >= parts[i])
			return refuse(w, "is a DTensor whose mesh is described in an unknown way");
		/* FSDP of a tensor that another axis has cut before cuts it in the other order. */
		if (unordered && sharded >> axis & 1)
			return refuse(w, "is a DTensor that two axes of the mesh cut along one "
			                 "dimension, and it does not say in which order");
		sharded |= UINT64_C(1) << axis;
		cut(t, axis, part[i], parts[i]);
	}
	return 0;
}

/* _rebuild_wrapper_subclass(class, dtype, size, ...), with the state {"_local_tensor", "_spec"}. */
static int visit_dtensor(struct walk *w, const struct pickle_value *arguments,
                         const struct pickle_value *state, int depth)
{
	const struct pickle_value *fields = dict_of(state), *args = tuple_of(arguments);
	const struct pickle_value *local = pickle_get(fields, "_local_tensor");
	struct torch_tensor t = {0};
	if (!w->visitor->pieces)
		return refuse(w,
		              "is a piece of a DTensor, which is no whole tensor: name the folder "
		              "of all pieces");
	if (!args || args->n < 3 || args->items[1]->kind != PICKLE_GLOBAL ||
	    !torch_numbers(args->items[2], t.whole, &t.ndim) || !local || w->dtensor)
		return refuse(w, "is a DTensor that is described in an unknown way");
	t.dtype = torch_dtype(args->items[1]->global->name, args->items[1]->global->name_len);
	memcpy(t.shape, t.whole, sizeof t.shape);
	if (place_piece(w, pickle_get(fields, "_spec"), &t))
		return -1;
	w->dtensor = &t;
	const int ret = visit(w, local, depth + 1);
	w->dtensor = NULL;
	return ret;
}

static int visit_wrapped(struct walk *w, const struct pickle_value *v, int depth)
{
	/* _rebuild_from_type_v2(callable, class, arguments, state) */
	const struct pickle_value *callable = argument(v, 0), *arguments = argument(v, 2);
	if (!callable || callable->kind != PICKLE_GLOBAL || !arguments)
		return refuse(w, "is made in an unknown way");
	if (pickle_is_global(callable, "torch._utils", "_rebuild_wrapper_subclass"))
		return visit_dtensor(w, arguments, argument(v, 3), depth);
	struct pickle_record record = {.callable = callable, .arguments = arguments};
	const struct pickle_value inner = {.kind = PICKLE_RECORD, .record = &record};
	return visit(w, &inner, depth + 1);
}

/* A set, list or dict by its name. */
static bool is_builtin(const struct pickle_value *v)
{
	const struct pickle_global *g = v->record->callable->global;
	return is(g->module, g->module_len, "builtins") ||
	       is(g->module, g->module_len, "__builtin__");
}

static int visit_record(struct walk *w, const struct pickle_value *v, int depth)
{
	static const struct {
		const char *name, *why;
	} refused[] = {
	        {"_rebuild_sparse_tensor", "is sparse, which is not read: save it by .to_dense()"},
	        {"_rebuild_sparse_csr_tensor",
	         "is sparse, which is not read: save it by .to_dense()"},
	        {"_rebuild_qtensor", "is quantised, which is not read: save it dequantised"},
	        {"_rebuild_wrapper_subclass", "is made in an unknown way"},
	};
	for (size_t i = 0; i < LEN(refused); i++)
		if (calls(v, "torch._utils", refused[i].name))
			return refuse(w, refused[i].why);
	if (calls(v, "torch._utils", "_rebuild_tensor_v2") ||
	    calls(v, "torch._utils", "_rebuild_tensor"))
		return read_tensor(w, v, false);
	if (calls(v, "torch._utils", "_rebuild_tensor_v3"))
		return read_tensor(w, v, true);
	if (calls(v, "torch._utils", "_rebuild_parameter") ||
	    calls(v, "torch._utils", "_rebuild_parameter_with_state")) {
		const struct pickle_value *of = argument(v, 0);
		return of ? visit(w, of, depth + 1) : refuse(w, "is made in an unknown way");
	}
	if (calls(v, "torch._tensor", "_rebuild_from_type_v2"))
		return visit_wrapped(w, v, depth);
	if (calls(v, "collections", "OrderedDict")) {
		if (visit_pairs(w, argument(v, 0), depth))
			return -1;
		return visit_dict(w, &v->record->content, depth);
	}
	const struct pickle_value *first = argument(v, 0);
	if (is_builtin(v) && first && first->kind == PICKLE_LIST)
		return visit_list(w, first, depth);
	if (v->record->content.kind == PICKLE_DICT)
		return visit_dict(w, &v->record->content, depth);
	if (v->record->content.kind == PICKLE_LIST)
		return visit_list(w, &v->record->content, depth);
	return visit_other(w, v);
}

static int visit(struct walk *w, const struct pickle_value *v, int depth)
{
	/* A name is kept with each value. */
	const uint64_t cost = 1 + strlen(w->name) / STEPS;
	if (offload_stopped(w->err) < 0)
		return -1;
	if (depth > DEPTH_MAX || w->steps < cost)
		return err_set(w->err, ERR_INPUT,
		               "its pickle nests values deeper or more often than tensors need");
	w->steps -= cost;
	switch (v->kind) {
	case PICKLE_DICT:
		return visit_dict(w, v, depth);
	case PICKLE_LIST:
	case PICKLE_TUPLE:
	case PICKLE_SET:
		return visit_list(w, v, depth);
	case PICKLE_RECORD:
		return visit_record(w, v, depth);
	case PICKLE_FOREIGN:
		return refuse(w, "is a storage, not a tensor");
	default:
		return visit_other(w, v);
	}
}

int torch_visit(const struct pickle_value *root, size_t bytes, const struct torch_visitor *visitor,
                struct err *err)
{
	struct walk w = {.visitor = visitor, .steps = STEPS * (uint64_t)bytes, .err = err};
	return visit(&w, root, 0);
}
