/* The library's face: a job of lib/coll behind functions that C and ctypes can call. */
#include "lib/collctl.h"

#include <errno.h>
#ifdef COLLCTL_LINKED
#include <openssl/crypto.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/json.h"
#include "lib/base/version.h"
#include "lib/coll/coll.h"
#include "lib/coll/files/memory_array.h"
#include "lib/coll/progress_calls.h"
#include "lib/coll/request/setting.h"
#include "lib/coll/result_json.h"

/* A string that the job keeps. */
struct text {
	struct text *next;
	char bytes[];
};

/* An input in memory, and its file. */
struct input {
	struct memory_array array;
	const char *path;
	int fd;
};

struct collctl {
	struct coll_request request;
	collctl_note *note;
	void *note_ctx;
	struct progress_calls progress;
	struct coll_result result;
	struct text *texts;
	char **inputs;
	int ninputs;
	struct input *arrays; /* inputs in memory */
	struct input_array *listed;
	int narrays;
	struct sink_capture capture; /* of an output in memory */
	struct memory_array output;  /* after a success */
	void *given;                 /* for collctl_output_memory */
	bool in_place;               /* which may be written before the verdict */
	int cancel_fd;
	bool ran;
	double seconds;
	char *json; /* NULL: not known */
	char command[32];
	char subject[sizeof((struct err *)0)->text];
	char digest[DIGEST_TEXT]; /* "": not known */
};

#ifdef COLLCTL_LINKED
/* The OpenSSL that this library contains reads neither the configuration nor the modules of the
 * host's, which may be of another version. */
__attribute__((constructor)) static void use_no_modules(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
}
#endif

const char *collctl_version(void)
{
	return COLLCTL_VERSION;
}

/* ---- the request ---- */

static bool find_command(struct coll_request *r, const char *name)
{
	r->work = strcmp(name, "barrier") == 0  ? WORK_BARRIER
	          : strcmp(name, "verify") == 0 ? WORK_VERIFY
	                                        : WORK_COLLECTIVE;
	return r->work != WORK_COLLECTIVE ||
	       (coll_by_name(name, &r->kind) == 0 && r->kind != COLL_BARRIER);
}

static void close_inputs(collctl *c)
{
	while (c->narrays)
		close(c->arrays[--c->narrays].fd);
}

collctl *collctl_new(const char *name)
{
	collctl *c = name ? calloc(1, sizeof *c) : NULL;
	if (!c)
		return NULL;
	request_init(&c->request, WORK_COLLECTIVE);
	c->capture.fd = -1;
	c->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->cancel_fd < 0 || !find_command(&c->request, name)) {
		collctl_free(c);
		return NULL;
	}
	snprintf(c->command, sizeof c->command, "%s", name);
	c->request.command = c->command;
	c->request.files.takes_bytes = coll_rules(c->request.kind)->bytes;
	c->request.settings.embedded = true;
	c->request.settings.ignore_environment = true;
	c->request.settings.cancel_fd = c->cancel_fd;
	c->result = (struct coll_result){.err = ERR_INIT, .rank = -1};
	return c;
}

void collctl_free(collctl *c)
{
	if (!c)
		return;
	request_release(&c->request);
	while (c->texts) {
		struct text *next = c->texts->next;
		free(c->texts);
		c->texts = next;
	}
	free(c->inputs);
	close_inputs(c);
	free(c->arrays);
	free(c->listed);
	free(c->json);
	memory_array_unmap(&c->output);
	if (c->capture.fd >= 0)
		close(c->capture.fd);
	if (c->cancel_fd >= 0)
		close(c->cancel_fd);
	free(c);
}

static void begin_call(collctl *c)
{
	c->result.err = ERR_INIT;
}

/* End a call that may have failed: its code. */
static int end_call(collctl *c)
{
	const struct err *err = &c->result.err;
	char *const subject = c->subject;

	snprintf(subject, sizeof c->subject, "%.*s", err->subject, err->text);
	if (*subject && err_option(subject) == err->subject &&
	    request_setting(&c->request, subject + 2))
		memmove(subject, subject + 2, strlen(subject + 2) + 1);
	return err->code;
}

/* A copy of @text that lives as long as the job. */
static char *keep(collctl *c, const char *text)
{
	const size_t n = strlen(text) + 1;
	struct text *t = err_malloc(sizeof *t + n, "a setting", &c->result.err);
	if (!t)
		return NULL;
	t->next = c->texts;
	c->texts = t;
	return memcpy(t->bytes, text, n);
}

static int set(collctl *c, const char *name, const char *value)
{
	const struct setting *s = name ? request_setting(&c->request, name) : NULL;
	struct err *err = &c->result.err;
	if (!name)
		return err_set(err, ERR_USAGE, "a setting needs a name");
	if (c->ran)
		return err_set(err, ERR_USAGE, "%s: the job has run already", name);
	if (!s)
		return err_set(err, ERR_USAGE, "%s: there is no such setting", name);
	if (!request_takes(&c->request, s))
		return err_set(err, ERR_USAGE, "%s: %s does not take it", name, c->command);
	if (s->kind == SETTING_FLAG)
		return setting_read(s, &c->request, value, name, err);
	if (!value)
		return err_set(err, ERR_USAGE, "%s: needs a value", name);
	const char *kept = keep(c, value);
	return kept ? setting_read(s, &c->request, kept, name, err) : -1;
}

int collctl_set(collctl *c, const char *setting, const char *value)
{
	begin_call(c);
	set(c, setting, value);
	return end_call(c);
}

int collctl_output(collctl *c, const char *path)
{
	return collctl_set(c, "output", path);
}

/* The job's copy of the path; NULL: it failed. */
static const char *add_input(collctl *c, const char *path)
{
	struct err *err = &c->result.err;
	if (!path) {
		err_set(err, ERR_USAGE, "an input needs a path");
		return NULL;
	}
	if (c->ran) {
		err_set(err, ERR_USAGE, "%s: the job has run already", path);
		return NULL;
	}
	if (c->request.work == WORK_BARRIER) {
		err_set(err, ERR_USAGE, "%s: a barrier has no input", path);
		return NULL;
	}
	char *kept = keep(c, path);
	char **grown = kept ? err_grow(c->inputs, (size_t)c->ninputs, sizeof *grown,
	                               "the list of inputs", err)
	                    : NULL;
	if (!grown)
		return NULL;
	c->inputs = grown;
	c->inputs[c->ninputs++] = kept;
	return kept;
}

int collctl_input(collctl *c, const char *path)
{
	begin_call(c);
	add_input(c, path);
	return end_call(c);
}

/* ---- arrays in memory ---- */

/* The files of a job with arrays in memory are .npy, which some types need --dtype for. */
static int be_npy(collctl *c, enum dtype dtype, struct err *err)
{
	struct input_options *files = &c->request.files;
	const bool nameless = dtype == DTYPE_BF16 || dtype == DTYPE_F8E4M3 || dtype == DTYPE_F8E5M2;
	if (files->format && files->format != &format_npy)
		return err_set(err, ERR_USAGE,
		               "format: arrays in memory go with .npy files, not %s",
		               files->format->name);
	files->format = &format_npy;
	if (nameless)
		files->dtype = dtype;
	return 0;
}

static void add_array(collctl *c, const void *data, const char *name, const uint64_t *shape,
                      int ndim)
{
	struct err *err = &c->result.err;
	const enum dtype dtype = dtype_by_name(name ? name : "");
	char path[MEMORY_ARRAY_PATH];
	if (!dtype_has_arithmetic(dtype)) {
		err_set(err, ERR_USAGE, "dtype: '%s' is no type of an array", name ? name : "");
		return;
	}
	struct input *grown =
	        err_grow(c->arrays, (size_t)c->narrays, sizeof *grown, "the arrays", err);
	if (!grown)
		return;
	c->arrays = grown;
	struct input *in = &c->arrays[c->narrays];
	if (be_npy(c, dtype, err) < 0 ||
	    (in->fd = memory_array_begin(&in->array, data, dtype, shape, ndim, err)) < 0)
		return;
	c->narrays++;
	memory_array_path(in->fd, path);
	in->path = add_input(c, path);
}

int collctl_input_memory(collctl *c, const void *data, const char *dtype, const uint64_t *shape,
                         int ndim)
{
	begin_call(c);
	add_array(c, data, dtype, shape, ndim);
	return end_call(c);
}

static int capture_output(collctl *c, void *given, const char *dtype, uint64_t bytes)
{
	begin_call(c);
	const enum dtype want = dtype ? dtype_by_name(dtype) : DTYPE_NONE;
	if (dtype && want == DTYPE_NONE)
		err_set(&c->result.err, ERR_USAGE, "'%.40s' is no type of elements", dtype);
	else if (c->request.capture)
		err_set(&c->result.err, ERR_USAGE, "a job has one output in memory");
	else if (be_npy(c, DTYPE_NONE, &c->result.err) == 0 && set(c, "output", "-") == 0) {
		c->capture.bytes = bytes;
		c->capture.want = want;
		c->given = given;
		c->request.capture = &c->capture;
	}
	return end_call(c);
}

int collctl_output_memory(collctl *c, void *data, const char *dtype, uint64_t bytes, unsigned flags)
{
	const int code = capture_output(c, data, dtype, bytes);
	c->in_place = !code && flags & COLLCTL_IN_PLACE;
	return code;
}

int collctl_output_kept(collctl *c)
{
	return capture_output(c, NULL, NULL, UINT64_MAX);
}

static bool overlap(const void *a, uint64_t n, const void *b, uint64_t m)
{
	const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
	return x < y + m && y < x + n;
}

/* May the result be written to its place while the job runs? Not over an input, which is read once
 * more if the job goes back. */
static bool writes_in_place(const collctl *c)
{
	for (int i = 0; c->in_place && i < c->narrays; i++) {
		const struct memory_array *m = &c->arrays[i].array;
		if (overlap(c->given, c->capture.bytes, m->data, array_bytes(&m->info)))
			return false;
	}
	return c->in_place;
}

/* Does the job move and compare its inputs as files, with their heads? */
static bool takes_files(const struct coll_request *r)
{
	return r->work == WORK_VERIFY || r->each || request_compares(r);
}

/* Before the job: where its arrays are. */
static int place_arrays(collctl *c, struct err *err)
{
	const bool in_files = takes_files(&c->request);
	if ((c->narrays || c->request.capture) && be_npy(c, DTYPE_NONE, err) < 0)
		return -1;
	c->capture.memory = writes_in_place(c) ? c->given : NULL;
	c->listed = err_calloc((size_t)c->narrays + 1, sizeof *c->listed, "the arrays", err);
	if (!c->listed)
		return -1;
	for (int i = 0; i < c->narrays; i++) {
		const struct input *in = &c->arrays[i];
		c->listed[i] = (struct input_array){in->path, in->array.data};
		if (in_files && memory_array_fill(&in->array, in->fd, err) < 0)
			return -1;
	}
	c->request.arrays = c->listed;
	c->request.narrays = in_files ? 0 : c->narrays;
	return 0;
}

/* After a success: the array, if this rank has got one. */
static void take_output(collctl *c)
{
	const int fd = c->capture.fd;
	struct err *err = &c->result.err;
	if (fd < 0 || memory_array_describe(&c->output, fd, c->capture.dtype, err) < 0)
		return;
	if (c->capture.memory)
		c->output.data = c->given;
	else if (c->given)
		memory_array_read(&c->output, fd, c->given, err);
	else
		memory_array_map(&c->output, fd, err);
	close(fd); /* a mapping stays */
	c->capture.fd = -1;
}

int collctl_result(collctl *c, unsigned i, const void **data, uint64_t *bytes, const char **dtype,
                   const uint64_t **shape, int *ndim)
{
	const struct array_info *info = &c->output.info;
	if (i || !c->output.data)
		return COLLCTL_USAGE;
	*data = c->output.data;
	*bytes = array_bytes(info);
	*dtype = dtype_name(info->dtype);
	*shape = info->shape;
	*ndim = info->ndim;
	return 0;
}

void collctl_use_environment(collctl *c)
{
	c->request.settings.ignore_environment = false;
}

void collctl_notes(collctl *c, collctl_note *note, void *ctx)
{
	c->note = note;
	c->note_ctx = ctx;
}

void collctl_progress(collctl *c, collctl_progress_fn *progress, void *ctx)
{
	c->progress.fn = progress;
	c->progress.ctx = ctx;
}

/* ---- the job ---- */

/* Take a setting from its variable, if the program has not @given it. */
static void take(collctl *c, bool given, const char *name, const char *variable)
{
	const char *value = given ? NULL : getenv(variable);
	if (!value || !*value)
		return;
	const char *kept = keep(c, value);
	if (kept)
		setting_read(request_setting(&c->request, name), &c->request, kept, variable,
		             &c->result.err);
}

/* What `collctl run` says to a program: the rank, the size and the store. A ticket has them all. */
static void take_variables(collctl *c)
{
	const struct job_settings *s = &c->request.settings;
	const char *ticket = getenv("COLLCTL_TICKET");
	if (s->ignore_environment || s->ticket_file || (ticket && *ticket))
		return;
	take(c, s->rank != -1, "rank", "COLLCTL_RANK");
	take(c, s->size > 0, "size", "COLLCTL_SIZE");
	take(c, s->rendezvous || s->hostfile || s->size == 1, "rendezvous", "COLLCTL_RENDEZVOUS");
}

static void on_note(void *ctx, int level, int rank, const char *text)
{
	const collctl *c = ctx;
	if (c->note)
		c->note(c->note_ctx, level, rank, text);
}

static void on_opened(void *ctx, struct job *job)
{
	progress_calls_open(&((collctl *)ctx)->progress, job);
}

static void on_moving(void *ctx, uint64_t bytes, const struct coll *coll)
{
	progress_calls_move(&((collctl *)ctx)->progress, bytes, coll);
}

int collctl_run(collctl *c)
{
	const struct coll_observer observer = {
	        .note = on_note, .opened = on_opened, .moving = on_moving, .ctx = c};
	begin_call(c);
	if (c->ran) {
		err_set(&c->result.err, ERR_USAGE, "the job has run already");
		return end_call(c);
	}
	c->ran = true;
	c->request.inputs = c->inputs;
	c->request.ninputs = c->ninputs;
	take_variables(c);
	if (!c->result.err.code && place_arrays(c, &c->result.err) == 0)
		coll_run(&c->request, &observer, &c->result);
	progress_calls_end(&c->progress);
	if (!c->result.err.code)
		take_output(c);
	close_inputs(c);
	if (c->result.has_digest)
		digest_text(c->result.digest, c->digest);
	json_t *json = result_json(&c->result, &c->request);
	c->json = json_text(json, JSON_COMPACT);
	json_decref(json);
	coll_end(&c->result);
	const struct coll_times *t = &c->result.times;
	c->seconds = t->commit ? (double)(t->commit - t->start) / 1e9 : 0;
	return end_call(c);
}

void collctl_cancel(collctl *c)
{
	const uint64_t one = 1;
	const int before = errno;
	/* A failure says that there is a request already. */
	if (write(c->cancel_fd, &one, sizeof one) < 0)
		errno = before;
}

/* ---- the outcome ---- */

int collctl_code(const collctl *c)
{
	return c->result.err.code;
}

const char *collctl_message(const collctl *c)
{
	return c->result.err.text;
}

int collctl_culprit(const collctl *c)
{
	return c->result.err.code ? c->result.err.rank : -1;
}

const char *collctl_culprit_host(const collctl *c)
{
	return c->result.err.host;
}

const char *collctl_subject(const collctl *c)
{
	return c->result.err.code ? c->subject : "";
}

int collctl_rank(const collctl *c)
{
	return c->result.rank;
}

int collctl_size(const collctl *c)
{
	return c->result.size;
}

const char *collctl_digest(const collctl *c)
{
	return c->digest;
}

uint64_t collctl_bytes(const collctl *c)
{
	return c->result.bytes;
}

const char *collctl_algorithm(const collctl *c)
{
	return c->result.algorithm ? c->result.algorithm->name : "";
}

double collctl_seconds(const collctl *c)
{
	return c->seconds;
}

const char *collctl_json(const collctl *c)
{
	return c->json ? c->json : "";
}
