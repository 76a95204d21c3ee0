#include "lib/exec/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/library.h"
#include "lib/base/numa.h"
#include "lib/base/offload.h"
#include "lib/base/stuck.h"
#include "lib/base/user.h"
#include "lib/net/arena.h"

#define PLUGIN     "collctl-cuda.so"
#define DRAIN_TIME NS_PER_SEC /* for the tasks that run when a job fails */
#define NEXT_SHARE 4          /* another thread's set has this part of the limits of the first */

/* ---- the plug-in ---- */

/* Place @i where the plug-in may be, if COLLCTL_PLUGIN_PATH does not say it. False: there is none.
 */
static bool place_of(int i, char path[DEVICE_PATH])
{
	static const char *const below[] = {"", "/../lib/collctl", "/collctl", "/../collctl"};
	char self[DEVICE_PATH - 64] = "";
	Dl_info info;
	if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
		return false;
	if (i >= 2) { /* in a program that uses the library: beside the library, or in /usr/lib */
		if (!dladdr((const void *)(uintptr_t)devices_open, &info) || !info.dli_fname ||
		    *info.dli_fname != '/' || strcmp(info.dli_fname, self) == 0)
			return false;
		snprintf(self, sizeof self, "%s", info.dli_fname);
	}
	snprintf(path, DEVICE_PATH, "%s%s/" PLUGIN, dirname(self), below[i]);
	return true;
}

/* Find the plug-in; @path is absolute. False, with errno: @path is where it should be. */
static bool find_plugin(char path[DEVICE_PATH])
{
	const char *given = getenv("COLLCTL_PLUGIN_PATH");
	if (given && *given) {
		if (realpath(given, path))
			return access(path, R_OK) == 0;
		snprintf(path, DEVICE_PATH, "%s", given);
		return false;
	}
	for (int i = 0; i < 4; i++)
		if (place_of(i, path) && access(path, F_OK) == 0)
			return access(path, R_OK) == 0;
	*path = '\0';
	place_of(0, path);
	errno = ENOENT;
	return false;
}

/* The owner of this program, or of the library that has this code: their code runs here anyway. */
static uid_t owner_of_this(void)
{
	struct stat st;
	Dl_info info;
	const char *file = "/proc/self/exe";
	if (dladdr((const void *)(uintptr_t)devices_open, &info) && info.dli_fname &&
	    *info.dli_fname == '/')
		file = info.dli_fname;
	return stat(file, &st) == 0 ? st.st_uid : geteuid();
}

/* The plug-in's code runs as this user: no other user may change it, or put another at its place.
 */
static bool check_plugin(const char *path, char why[DEVICE_WHY])
{
	const uid_t trusted = owner_of_this();
	char folder[DEVICE_PATH], how[128];
	struct stat st;
	snprintf(folder, sizeof folder, "%s", path);
	const char *const places[] = {path, dirname(folder)};
	for (int i = 0; i < 2; i++)
		if (stat(places[i], &st) == 0 &&
		    user_others_change(&st, trusted, how, sizeof how)) {
			snprintf(why, DEVICE_WHY, "the plug-in %s is not trusted: %s%s", path,
			         i ? "its folder: " : "", how);
			return false;
		}
	return true;
}

/* Find the plug-in and open it. It stays open. NULL: *why says what was found at @path. */
static const struct gpu_plugin *plugin_open(char path[DEVICE_PATH], char why[DEVICE_WHY])
{
	if (PROGRAM_IS_STATIC) {
		snprintf(why, DEVICE_WHY, "a program that is linked statically opens no plug-ins");
		return NULL;
	}
	if (!find_plugin(path)) {
		snprintf(why, DEVICE_WHY, "the plug-in %s cannot be read: %m", path);
		return NULL;
	}
	if (!check_plugin(path, why))
		return NULL;
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		snprintf(why, DEVICE_WHY, "the plug-in cannot be opened: %s", dlerror());
		return NULL;
	}
	const struct gpu_plugin *p = dlsym(lib, GPU_PLUGIN_SYMBOL);
	if (!p) {
		snprintf(why, DEVICE_WHY, "%s is no plug-in of collctl: it has no %s", path,
		         GPU_PLUGIN_SYMBOL);
		return NULL;
	}
	if (p->version != GPU_PLUGIN_VERSION || p->size < sizeof *p) {
		snprintf(why, DEVICE_WHY,
		         "the plug-in %s has version %u (%zu bytes), this program needs version %u "
		         "(%zu bytes): install both from one version",
		         path, p->version, p->size, GPU_PLUGIN_VERSION, sizeof *p);
		return NULL;
	}
	return p;
}

struct counting {
	const struct gpu_plugin *plugin;
	int count;
	char why[DEVICE_WHY];
};

static int count_devices(void *ctx, struct err *err)
{
	struct counting *c = ctx;
	(void)err;
	c->count = c->plugin->count(c->why, sizeof c->why);
	return 0;
}

/* A driver may hang: in a thread, which is left behind then. */
static void count_in_thread(struct device_plugin *out, struct counting *c, int64_t ns)
{
	struct err err = ERR_INIT;
	struct pollfd end = {.events = POLLIN};
	struct offload *o = malloc(sizeof *o);
	if (!o || offload_start(o, count_devices, c, &err) < 0) {
		snprintf(out->why, sizeof out->why, "cannot start a thread");
		free(o);
		free(c);
		return;
	}
	end.fd = o->eventfd;
	if (io_retry(poll(&end, 1, (int)(ns / NS_PER_MS))) <= 0) {
		snprintf(out->why, sizeof out->why, "the driver has not answered for %g s",
		         (double)ns / NS_PER_SEC);
		offload_leave(o, free);
		return;
	}
	offload_finish(o, &err);
	out->count = c->count;
	memcpy(out->why, c->why, sizeof out->why);
	free(o);
	free(c);
}

void device_plugin_find(struct device_plugin *out, int64_t ns)
{
	*out = (struct device_plugin){.count = -1};
	struct counting *c = calloc(1, sizeof *c);
	if (!c) {
		snprintf(out->why, sizeof out->why, "no memory");
		return;
	}
	c->plugin = plugin_open(out->path, out->why);
	if (!c->plugin) {
		free(c);
		return;
	}
	snprintf(out->name, sizeof out->name, "%s", c->plugin->name);
	count_in_thread(out, c, ns);
}

/* ---- devices ---- */

struct device_space {
	struct memory_space space; /* the first member */
	struct devices *all;
	int index;
	char name[24];
};

/* A task that runs on a device. */
struct flight {
	struct flight *next, **prev;
	const void *owner;
	void (*done)(void *ctx, const struct err *why);
	void *ctx;
	const char *device;
};

struct devices {
	const struct gpu_plugin *plugin;
	struct gpu *gpu;
	int n, numbers[DEVICES_MOST];
	enum gpu_path path;
	struct gpu_limits limits;
	struct devices *first, *next; /* the sets of all threads */
	uint64_t free_bytes;          /* of the device that has least */
	int node;                     /* as devices_node */
	struct device_space spaces[DEVICES_MOST];
	const struct memory_space *list[DEVICES_MOST];
	struct device_space host;
	struct arena *arena; /* NULL: none */
	char not_shared[GPU_WHY];
	struct flight *flights;
	/* Of the first set: a task of a set never ended. The memory of all stays, because a driver
	 * that frees some waits for all tasks. */
	bool stuck;
	struct loop *loop;
	struct loop_watch watch;
	struct loop_poll poll;
};

static struct devices *all_of(const struct memory_space *space)
{
	return ((const struct device_space *)space)->all;
}

static int failed(const char *device, const char *what, const char *why, struct err *err)
{
	return err_set(err, ERR_RESOURCE, "device %s: %s: %s", device, what, why);
}

static void *device_alloc(const struct memory_space *space, size_t bytes, struct err *err)
{
	const struct devices *d = all_of(space);
	char why[GPU_WHY] = "", what[64];
	void *p = d->plugin->alloc(d->gpu, ((const struct device_space *)space)->index, bytes, why,
	                           sizeof why);
	snprintf(what, sizeof what, "no memory for %zu bytes", bytes);
	if (!p)
		failed(space->name, what, why, err);
	return p;
}

static void device_free(const struct memory_space *space, void *p, size_t bytes)
{
	const struct devices *d = all_of(space);
	if (p && !d->first->stuck)
		d->plugin->release(d->gpu, ((const struct device_space *)space)->index, p, bytes);
}

/* Pages that exist are pinned faster; an old kernel leaves that to the plug-in. */
static void touch(void *p, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
	(void)madvise(p, bytes, MADV_POPULATE_WRITE);
#else
	(void)p, (void)bytes;
#endif
}

/* Pinned memory from the arena. NULL: there is none. */
static void *shared_alloc(struct devices *d, size_t bytes)
{
	void *p = d->arena ? arena_alloc(d->arena, bytes) : NULL;
	if (!p)
		return NULL;
	touch(p, bytes);
	if (d->plugin->register_host(d->gpu, p, bytes, d->not_shared, sizeof d->not_shared) == 0)
		return p;
	arena_release(d->arena, p, bytes);
	return NULL;
}

static void *host_alloc(const struct memory_space *space, size_t bytes, struct err *err)
{
	struct devices *d = all_of(space);
	char why[GPU_WHY] = "";
	const bool near = numa_prefer(d->node);
	void *p = shared_alloc(d, bytes);
	if (!p)
		p = d->plugin->alloc_host(d->gpu, bytes, why, sizeof why);
	if (near)
		numa_prefer_none();
	if (!p)
		err_set(err, ERR_RESOURCE, "no pinned host memory for %zu bytes: %s", bytes, why);
	return p;
}

static void host_free(const struct memory_space *space, void *p, size_t bytes)
{
	const struct devices *d = all_of(space);
	const bool shared = p && d->arena && arena_offset(d->arena, p, bytes) >= 0;
	if (shared && d->first->stuck) {
		arena_keep(d->arena);
	} else if (shared) {
		d->plugin->unregister_host(d->gpu, p, bytes);
		arena_release(d->arena, p, bytes);
	} else if (p && !d->first->stuck) {
		d->plugin->release_host(d->gpu, p, bytes);
	}
}

static int host_start(const struct memory_space *space, const struct memory_task *t,
                      struct err *err)
{
	(void)space;
	return memory_host.start(&memory_host, t, err);
}

static void host_cancel(const struct memory_space *space, const void *owner)
{
	(void)space, (void)owner;
}

static void land(struct flight *f)
{
	*f->prev = f->next;
	if (f->next)
		f->next->prev = f->prev;
	free(f);
}

/* What the plug-in does for @t. */
static struct gpu_task gpu_task_of(const struct memory_task *t, int device, struct flight *f)
{
	struct gpu_task g = {.device = device,
	                     .dst = t->dst,
	                     .src = t->a,
	                     .n = t->n,
	                     .inputs = (const void *const *)t->inputs,
	                     .ninputs = t->ninputs,
	                     .offset = t->offset,
	                     .dtype = (int)t->to,
	                     .acc = (int)t->acc,
	                     .reduce = (int)t->reduce,
	                     .cookie = f};
	g.op = t->op == MEMORY_FOLD ? GPU_FOLD : t->op == MEMORY_IDENTITY ? GPU_IDENTITY : GPU_COPY;
	if (g.op == GPU_COPY)
		g.n = t->n * dtype_size(t->to);
	return g;
}

static int device_start(const struct memory_space *space, const struct memory_task *t,
                        struct err *err)
{
	const struct device_space *s = (const struct device_space *)space;
	struct devices *d = s->all;
	struct flight *f = err_calloc(1, sizeof *f, "a task of a device", err);
	char why[GPU_WHY] = "";
	if (!f)
		return -1;
	*f = (struct flight){d->flights, &d->flights, t->owner, t->done, t->ctx, s->name};
	if (f->next)
		f->next->prev = &f->next;
	d->flights = f;
	const struct gpu_task g = gpu_task_of(t, s->index, f);
	if (d->plugin->submit(d->gpu, &g, why, sizeof why) == 0)
		return 0;
	land(f);
	return failed(s->name, "a task cannot start", why, err);
}

/* Wait until no task runs. A failed start may have left one that has no flight. */
static void drain(struct devices *d)
{
	if (!d->first->stuck)
		d->first->stuck = d->plugin->drain(d->gpu, DRAIN_TIME) < 0;
}

/* @owner is the only one that has tasks: executors run one after another. */
static void device_cancel(const struct memory_space *space, const void *owner)
{
	struct devices *d = all_of(space);
	drain(d);
	for (struct flight *f = d->flights, *next; f; f = next) {
		next = f->next;
		if (f->owner == owner)
			land(f);
	}
}

/* The task of @f has ended; @why: it has failed. */
static void complete(struct flight *f, const char *why)
{
	struct err err = ERR_INIT;
	void (*done)(void *, const struct err *) = f->done;
	void *ctx = f->ctx;
	if (why)
		failed(f->device, "a task failed", why, &err);
	land(f);
	done(ctx, why ? &err : NULL);
}

/* Ask for the tasks that have ended. */
static bool ask(void *ctx, bool sleeps)
{
	struct devices *d = ctx;
	char why[GPU_WHY] = "";
	bool any = false;
	void *cookie;
	int ret = 0;
	while (d->flights && (ret = d->plugin->next(d->gpu, &cookie, why, sizeof why)) == 1) {
		complete(cookie, NULL);
		any = true;
	}
	if (ret < 0)
		complete(cookie ? cookie : d->flights, why);
	any |= ret < 0;
	if (sleeps && !any && d->flights)
		d->plugin->will_sleep(d->gpu);
	return any;
}

static void woken(void *ctx, uint32_t events)
{
	struct devices *d = ctx;
	uint64_t count;
	(void)events;
	if (io_retry(read(d->watch.fd, &count, sizeof count)) >= 0)
		ask(d, false);
}

/* ---- opening and closing ---- */

static int choose(struct devices *d, const struct device_list *list, int place, struct err *err)
{
	int *numbers = d->numbers;
	char why[GPU_WHY] = "";
	int count = d->plugin->count(why, sizeof why);
	if (count < 0)
		return err_set(err, ERR_RESOURCE, "--device cuda: %s", why);
	if (count == 0)
		return err_set(err, ERR_RESOURCE, "--device cuda: this machine has no device");
	d->n = list->n ? list->n : 1;
	numbers[0] = place % count;
	for (int i = 0; i < list->n; i++) {
		numbers[i] = list->numbers[i];
		if (numbers[i] >= count)
			return err_set(err, ERR_RESOURCE,
			               "--device cuda:%d: this machine has %d device%s, from 0 on",
			               numbers[i], count, count == 1 ? "" : "s");
	}
	return 0;
}

static void make_spaces(struct devices *d)
{
	d->host = (struct device_space){.space = {.name = "host",
	                                          .alloc = host_alloc,
	                                          .free = host_free,
	                                          .start = host_start,
	                                          .cancel = host_cancel},
	                                .all = d};
	for (int i = 0; i < d->n; i++) {
		struct device_space *s = &d->spaces[i];
		snprintf(s->name, sizeof s->name, "cuda:%d", d->numbers[i]);
		s->space = (struct memory_space){.name = s->name,
		                                 .alloc = device_alloc,
		                                 .free = device_free,
		                                 .start = device_start,
		                                 .cancel = device_cancel};
		s->all = d;
		s->index = i;
		d->list[i] = &s->space;
	}
}

static int find_free_bytes(struct devices *d, struct err *err)
{
	char name[64], why[GPU_WHY] = "";
	uint64_t free_bytes, total;
	d->free_bytes = UINT64_MAX;
	for (int i = 0; i < d->n; i++) {
		if (d->plugin->describe(d->gpu, i, name, sizeof name, &free_bytes, &total, why,
		                        sizeof why) < 0)
			return failed(d->spaces[i].name, "its memory is unknown", why, err);
		if (free_bytes < d->free_bytes)
			d->free_bytes = free_bytes;
	}
	return 0;
}

static void close_gpu(struct devices *d)
{
	if (d->plugin->close(d->gpu) < 0)
		stuck_add();
}

/* Open the chosen devices. */
static int open_gpu(struct devices *d, struct err *err)
{
	char why[GPU_WHY] = "";
	bool stuck = false;
	d->gpu = d->plugin->open(d->numbers, d->n, d->path, &d->limits, &stuck, why, sizeof why);
	if (stuck)
		stuck_add();
	if (!d->gpu)
		return err_set(err, ERR_RESOURCE, "--device cuda: %s", why);
	make_spaces(d);
	d->node = d->plugin->node(d->gpu);
	if (find_free_bytes(d, err) == 0)
		return 0;
	close_gpu(d);
	return -1;
}

static int open_first(struct devices *d, const struct device_list *list, int place, struct err *err)
{
	char path[DEVICE_PATH], why[DEVICE_WHY] = "";
	d->plugin = plugin_open(path, why);
	if (!d->plugin)
		return err_set(err, ERR_RESOURCE, "--device cuda: %s", why);
	return choose(d, list, place, err) < 0 ? -1 : open_gpu(d, err);
}

static void close_set(struct devices *d)
{
	devices_detach(d);
	if (d->first->stuck)
		stuck_add();
	else
		close_gpu(d);
	free(d);
}

struct devices *devices_open(const struct device_list *list, enum gpu_path path,
                             const struct gpu_limits *limits, int place, struct err *err)
{
	struct devices *d = err_calloc(1, sizeof *d, "the devices", err);
	if (!d)
		return NULL;
	d->first = d;
	d->watch.fd = -1;
	d->path = path;
	d->limits = *limits;
	if (open_first(d, list, place, err) < 0) {
		free(d);
		return NULL;
	}
	return d;
}

/* A set for another thread. NULL: there is none. The windows have most of a device's memory. */
static struct devices *open_next(struct devices *first)
{
	struct err ignored = {0};
	struct devices *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->first = first;
	d->plugin = first->plugin;
	d->n = first->n;
	memcpy(d->numbers, first->numbers, sizeof d->numbers);
	d->path = first->path;
	d->limits = first->limits;
	d->limits.pinned /= NEXT_SHARE;
	d->limits.own /= NEXT_SHARE;
	d->watch.fd = -1;
	if (open_gpu(d, &ignored) < 0) {
		free(d);
		return NULL;
	}
	if (d->free_bytes >= first->free_bytes / 8 * 7)
		return d;
	close_set(d);
	return NULL;
}

int devices_extend(struct devices *first, int threads)
{
	struct devices *last = first;
	int n = 1;
	for (; last->next; n++)
		last = last->next;
	for (; n < threads && first->path != GPU_PATH_NCCL; n++)
		if (!(last = last->next = open_next(first)))
			break;
	return n;
}

void devices_settle(struct devices *first)
{
	for (struct devices *d = first; d; d = d->next)
		drain(d);
}

void devices_close(struct devices *first)
{
	devices_settle(first);
	while (first && first->next) {
		struct devices *d = first->next;
		first->next = d->next;
		close_set(d);
	}
	if (first)
		close_set(first);
}

int devices_threads(const struct devices *d)
{
	int n = 0;
	for (; d; d = d->next)
		n++;
	return n;
}

struct devices *devices_of(struct devices *first, int k)
{
	while (k-- > 0)
		first = first->next;
	return first;
}

int devices_count(const struct devices *d)
{
	return d ? d->n : 0;
}

const struct memory_space *const *devices_spaces(const struct devices *d)
{
	return d->list;
}

const struct memory_space *devices_host(const struct devices *d)
{
	return &d->host.space;
}

const char *devices_path(const struct devices *d)
{
	return d->plugin->path(d->gpu);
}

bool devices_are_unlinked(const struct devices *d)
{
	return d && d->path != GPU_PATH_NCCL && strcmp(devices_path(d), "host") == 0;
}

void devices_share(struct devices *d, struct arena *arena)
{
	d->arena = arena;
	*d->not_shared = '\0';
}

const char *devices_not_shared(const struct devices *d)
{
	return d->not_shared;
}

uint64_t devices_free_bytes(const struct devices *d)
{
	return d->free_bytes;
}

uint64_t devices_pinned_bytes(const struct devices *d)
{
	return d->plugin->pinned(d->gpu);
}

int devices_node(const struct devices *d)
{
	return d ? d->node : -1;
}

void devices_nccl(const struct devices *d, struct device_nccl *out)
{
	out->state = d->plugin->nccl(d->gpu, &out->folds, out->text, sizeof out->text);
}

int devices_attach(struct devices *d, struct loop *loop, struct err *err)
{
	d->watch = (struct loop_watch){d->plugin->event_fd(d->gpu), woken, d};
	if (loop_add(loop, &d->watch, EPOLLIN, err) < 0) {
		d->watch.fd = -1;
		return -1;
	}
	d->poll = (struct loop_poll){.fn = ask, .ctx = d};
	loop_poll_add(loop, &d->poll);
	d->loop = loop;
	return 0;
}

int devices_give(struct devices *d, struct exec_conf *conf, struct loop *loop, struct err *err)
{
	conf->host = devices_host(d);
	conf->devices = devices_spaces(d);
	conf->ndevices = devices_count(d);
	return devices_attach(d, loop, err);
}

void devices_detach(struct devices *d)
{
	if (d->loop) {
		loop_del(d->loop, &d->watch);
		loop_poll_del(d->loop, &d->poll);
	}
	d->loop = NULL;
}
