/* Processes and their threads as coroutines, the virtual clock, locks. */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK       (512u << 10)
#define TASKS_MOST  96
#define LOCALS_MOST 256 /* bytes of the program's thread-local variables */

struct task {
	struct proc *proc;
	void *(*fn)(void *);
	void *arg;
	uint8_t *stack;
	jmp_buf context;
	bool used, started, ready, done;
	uint64_t wait; /* which of its waits: a timer of an earlier one is void */
	int error;
	struct task *joiner;
	uint8_t locals[LOCALS_MOST];
};

struct event {
	int64_t when;
	uint64_t seq;
	void (*fn)(void *a, uint64_t b);
	void *a;
	uint64_t b;
};

struct proc procs[PROCS_MOST];
int nprocs;
struct proc *current;
int64_t now;
uint64_t trace, switches;
bool tracing;
struct rng sched_rng, net_rng, product_rng;

static struct task tasks[TASKS_MOST];
static struct task *running;
static jmp_buf scheduler;
static struct event *heap;
static size_t nheap, heap_cap;
static uint64_t event_seq;
static FILE *real_out, *real_err;
static uint8_t *locals;
static size_t locals_len;
static uint8_t fresh_locals[LOCALS_MOST];

/* The variables of the product (sim.mk puts them into these sections), and whose values they have.
 */
extern uint8_t __start_product_data[], __stop_product_data[];
extern uint8_t __start_product_bss[], __stop_product_bss[];
static struct proc *loaded;
static uint8_t *fresh_variables;

/* ---- random numbers ---- */

uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->s += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

int64_t rng_range(struct rng *r, int64_t lo, int64_t hi)
{
	return lo + (int64_t)rng_below(r, (uint64_t)(hi - lo) + 1);
}

bool rng_chance(struct rng *r, unsigned per_mille)
{
	return per_mille && rng_below(r, 1000) < per_mille;
}

int64_t rng_scale(struct rng *r, int64_t lo, int64_t hi)
{
	int64_t top = lo;
	while (top < hi && rng_below(r, 4) != 0)
		top = top * 2 + 1;
	return rng_range(r, lo, top < hi ? top : hi);
}

void rng_bytes(struct rng *r, void *p, size_t n)
{
	uint8_t *b = p;
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(rng_next(r) >> 24);
}

/* ---- memory of the world ---- */

static void **blocks;
static size_t nblocks, blocks_cap;

void *world_alloc(size_t n)
{
	if (nblocks == blocks_cap) {
		blocks_cap = blocks_cap ? 2 * blocks_cap : 1024;
		blocks = realloc(blocks, blocks_cap * sizeof *blocks);
	}
	void *p = calloc(1, n);
	if (!p || !blocks)
		abort();
	blocks[nblocks++] = p;
	return p;
}

void world_free_all(void)
{
	for (size_t i = 0; i < nblocks; i++)
		free(blocks[i]);
	nblocks = 0;
}

/* ---- events ---- */

static bool before(const struct event *x, const struct event *y)
{
	return x->when != y->when ? x->when < y->when : x->seq < y->seq;
}

void at(int64_t when, void (*fn)(void *a, uint64_t b), void *a, uint64_t b)
{
	if (nheap == heap_cap) {
		heap_cap = heap_cap ? 2 * heap_cap : 1024;
		heap = realloc(heap, heap_cap * sizeof *heap);
		if (!heap)
			abort();
	}
	struct event e = {when < now ? now : when, event_seq++, fn, a, b};
	size_t i = nheap++;
	for (; i && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event next_event(void)
{
	struct event first = heap[0], last = heap[--nheap];
	size_t i = 0, child;
	while ((child = 2 * i + 1) < nheap) {
		if (child + 1 < nheap && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

void note(const char *what, int64_t a, int64_t b)
{
	uint64_t h = trace ^ (uint64_t)now;
	for (const char *c = what; *c; c++)
		h = (h ^ (uint8_t)*c) * 0x100000001b3u;
	h = (h ^ (uint64_t)a) * 0x9e3779b97f4a7c15u;
	h = (h ^ (uint64_t)b ^ h >> 29) * 0xbf58476d1ce4e5b9u;
	trace = h ^ h >> 32;
	if (tracing)
		fprintf(real_err, "%12.6f %2d %s %lld %lld\n", (double)now / 1e9,
		        current ? current->id : -1, what, (long long)a, (long long)b);
}

/* ---- the variables of processes ---- */

static size_t data_len(void)
{
	return (size_t)(__stop_product_data - __start_product_data);
}

static size_t bss_len(void)
{
	return (size_t)(__stop_product_bss - __start_product_bss);
}

static void save_variables(uint8_t *to)
{
	memcpy(to, __start_product_data, data_len());
	memcpy(to + data_len(), __start_product_bss, bss_len());
}

static void load_variables(struct proc *p)
{
	if (loaded == p)
		return;
	if (loaded)
		save_variables(loaded->variables);
	memcpy(__start_product_data, p->variables, data_len());
	memcpy(__start_product_bss, p->variables + data_len(), bss_len());
	loaded = p;
}

/* ---- tasks ---- */

static int find_locals(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data) {
			locals = info->dlpi_tls_data;
			locals_len = info->dlpi_phdr[i].p_memsz;
		}
	return 1; /* the first is the program itself */
}

void sched_begin(void)
{
	if (!real_err) {
		real_out = stdout;
		real_err = stderr;
		dl_iterate_phdr(find_locals, NULL);
		if (locals_len > LOCALS_MOST)
			abort();
		memcpy(fresh_locals, locals, locals_len);
		fresh_variables = malloc(data_len() + bss_len());
		if (!fresh_variables)
			abort();
		save_variables(fresh_variables);
	}
	loaded = NULL;
	for (int i = 0; i < TASKS_MOST; i++)
		tasks[i].used = false;
	for (int i = 0; i < nprocs; i++) {
		for (int k = 0; k < procs[i].argc; k++)
			free(procs[i].argv[k]);
	}
	memset(procs, 0, sizeof procs);
	nprocs = 0;
	nheap = 0;
	event_seq = 0;
	switches = 0;
	trace = 0;
	now = 1000 * SEC;
	running = NULL;
	current = NULL;
}

struct task *task_current(void)
{
	return running;
}

static struct task *task_new(struct proc *p, void *(*fn)(void *), void *arg)
{
	struct task *t = tasks;
	while (t < tasks + TASKS_MOST && t->used)
		t++;
	if (t == tasks + TASKS_MOST)
		return NULL;
	uint8_t *stack = t->stack;
	if (!stack)
		stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
		             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE))
		abort();
	*t = (struct task){
	        .proc = p, .fn = fn, .arg = arg, .stack = stack, .used = true, .ready = true};
	memcpy(t->locals, fresh_locals, sizeof t->locals);
	return t;
}

static void leave(void)
{
	if (_setjmp(running->context) == 0)
		_longjmp(scheduler, 1);
}

static void close_streams(struct proc *p)
{
	if (p->out)
		fclose(p->out);
	if (p->err)
		fclose(p->err);
	p->out = p->err = NULL;
}

/* What the kernel does when a process is gone. */
static void proc_gone(struct proc *p, enum proc_state state, int code)
{
	note(state == PROC_ENDED ? "end" : "kill", p->id, code);
	p->state = state;
	p->code = code;
	p->ended = now;
	struct proc *who = current;
	current = NULL;
	net_end_proc(p);
	for (int i = 0; i < p->nfds; i++)
		__real_close(p->fds[i]);
	p->nfds = 0;
	for (int i = 0; i < TASKS_MOST; i++)
		if (tasks[i].used && tasks[i].proc == p)
			tasks[i].used = false;
	current = who;
}

static void entered(void)
{
	struct task *t = running;
	t->fn(t->arg);
	t->done = true;
	if (t->joiner)
		task_wake(t->joiner);
	leave();
	abort();
}

static void *main_thread(void *arg)
{
	struct proc *p = arg;
	char *argv[ARGS_MOST + 1];
	memcpy(argv, p->argv, sizeof argv);
	int code = entry(p->argc, argv);
	proc_gone(p, PROC_ENDED, code);
	return NULL;
}

/* Go on with the running task until it leaves. */
static void switch_to_running(void)
{
	static ucontext_t first;
	if (_setjmp(scheduler) != 0)
		return;
	if (running->started)
		_longjmp(running->context, 1);
	running->started = true;
	getcontext(&first);
	first.uc_stack.ss_sp = running->stack;
	first.uc_stack.ss_size = STACK;
	first.uc_link = NULL;
	makecontext(&first, entered, 0);
	setcontext(&first);
}

static void enter(struct task *t)
{
	running = t;
	current = t->proc;
	load_variables(t->proc);
	stdout = t->proc->out;
	stderr = t->proc->err;
	memcpy(locals, t->locals, locals_len);
	errno = t->error;
	switch_to_running();
	t->error = errno;
	memcpy(t->locals, locals, locals_len);
	stdout = real_out;
	stderr = real_err;
	if (t->proc->state >= PROC_ENDED)
		close_streams(t->proc);
	running = NULL;
	current = NULL;
}

void task_yield(void)
{
	leave();
}

static void timer_over(void *a, uint64_t wait)
{
	struct task *t = a;
	if (t->used && !t->ready && t->wait == wait)
		task_wake(t);
}

void task_wait(int64_t until)
{
	struct task *t = running;
	t->ready = false;
	t->wait++;
	if (until != NEVER)
		at(until, timer_over, t, t->wait);
	leave();
}

void task_wake(struct task *t)
{
	t->ready = true;
	t->wait++;
}

void task_sleep(int64_t ns)
{
	int64_t until = now + ns;
	while (now < until)
		task_wait(until);
}

/* ---- processes ---- */

struct proc *proc_new(int rank, int host)
{
	struct proc *p = &procs[nprocs];
	*p = (struct proc){.id = nprocs++,
	                   .rank = rank,
	                   .host = host,
	                   .clock_base = (int64_t)rng_below(&sched_rng, 1000000) * SEC,
	                   .disk.room = UINT64_MAX,
	                   .given = -1,
	                   .number = -1};
	return p;
}

static ssize_t keep_text(void *cookie, const char *data, size_t n)
{
	struct said *s = cookie;
	if (tracing)
		fprintf(real_err, "%12.6f %2d says %.*s", (double)now / 1e9,
		        current ? current->id : -1, (int)n, data);
	for (size_t i = 0; i < n; i++) {
		if (s->len == sizeof s->text - 1) {
			s->len /= 2;
			memmove(s->text, s->text + sizeof s->text - 1 - s->len, s->len);
		}
		s->text[s->len++] = data[i];
	}
	s->text[s->len] = '\0';
	return (ssize_t)n;
}

static FILE *stream_to(struct said *s)
{
	const cookie_io_functions_t functions = {.write = keep_text};
	FILE *f = fopencookie(s, "w", functions);
	if (!f)
		abort();
	setvbuf(f, NULL, _IONBF, 0);
	return f;
}

static void start(void *a, uint64_t b)
{
	(void)b;
	proc_start(a);
}

void proc_start(struct proc *p)
{
	if (p->state != PROC_NEW)
		return;
	if (p->started > now) {
		at(p->started, start, p, 0);
		return;
	}
	note("start", p->id, p->rank);
	p->state = PROC_RUNS;
	p->started = now;
	p->variables = world_alloc(data_len() + bss_len());
	memcpy(p->variables, fresh_variables, data_len() + bss_len());
	p->out = stream_to(&p->said_out);
	p->err = stream_to(&p->said);
	task_new(p, main_thread, p);
}

void proc_kill(struct proc *p, int code)
{
	if (p->state == PROC_NEW) {
		p->state = PROC_KILLED;
		p->code = code;
		p->ended = now;
	}
	if (p->state != PROC_RUNS)
		return;
	proc_gone(p, PROC_KILLED, code);
	if (current == p)
		leave();
	close_streams(p);
}

void proc_signal(struct proc *p, int sig)
{
	if (p->state != PROC_RUNS)
		return;
	note("signal", p->id, sig);
	if (!p->blocks_signals) {
		proc_kill(p, 128 + sig);
		return;
	}
	p->signals |= 1u << sig;
	if (p->signalfd)
		sock_signal(p->signalfd);
}

static void nothing(void *a, uint64_t b)
{
	(void)a, (void)b;
}

void proc_pause(struct proc *p, int64_t until)
{
	if (p->state != PROC_RUNS)
		return;
	note("pause", p->id, until - now);
	if (until > p->paused_until)
		p->paused_until = until;
	at(until, nothing, NULL, 0); /* something happens when it goes on */
}

void step(void)
{
	struct proc *p = current;
	now += 100 + (int64_t)(rng_next(&sched_rng) & 1023);
	if (++p->steps == p->kill_at)
		proc_kill(p, 128 + SIGKILL);
}

void step_and_yield(void)
{
	step();
	task_yield();
}

/* ---- the scheduler ---- */

static struct task *pick(void)
{
	struct task *ready[TASKS_MOST];
	uint64_t n = 0;
	for (int i = 0; i < TASKS_MOST; i++) {
		struct task *t = &tasks[i];
		if (t->used && t->ready && !t->done && t->proc->paused_until <= now)
			ready[n++] = t;
	}
	return n ? ready[n > 1 ? rng_below(&sched_rng, n) : 0] : NULL;
}

static bool all_ended(void)
{
	for (int i = 0; i < nprocs; i++)
		if (procs[i].state < PROC_ENDED)
			return false;
	return true;
}

bool sched_run(int64_t *deadline, uint64_t most)
{
	for (;;) {
		while (nheap && heap[0].when <= now) {
			struct event e = next_event();
			e.fn(e.a, e.b);
		}
		if (all_ended())
			return true;
		if (now > *deadline || switches >= most)
			return false;
		struct task *t = pick();
		if (t) {
			switches++;
			trace = (trace ^ (uint64_t)(t - tasks) ^ (uint64_t)now) * 0x100000001b3u;
			enter(t);
		} else if (nheap) {
			now = heap[0].when;
		} else {
			return false;
		}
	}
}

/* ---- threads and locks of the product ---- */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
	if (!current)
		return __real_pthread_create(thread, attr, fn, arg);
	step();
	struct task *t = task_new(current, fn, arg);
	if (!t)
		return EAGAIN;
	*thread = (pthread_t)(t - tasks + 1);
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
	if (!current)
		return __real_pthread_join(thread, value);
	struct task *t = &tasks[thread - 1];
	step_and_yield();
	while (!t->done) {
		t->joiner = running;
		task_wait(NEVER);
	}
	t->used = false;
	return 0;
}

/* A lock is held by nobody else while its holder runs, but the holder may be put aside within a
 * system call. The word of the mutex is ours while it is initialised to zeros, as all are. */
struct lock {
	struct task *holder;
};

static struct lock *lock_of(pthread_mutex_t *m)
{
	_Static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits");
	return (struct lock *)(void *)m;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	if (!current)
		return __real_pthread_mutex_init(m, attr);
	memset(m, 0, sizeof *m);
	return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *m)
{
	return current ? 0 : __real_pthread_mutex_destroy(m);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	struct lock *l = lock_of(m);
	if (!current)
		return __real_pthread_mutex_lock(m);
	step();
	if (rng_chance(&sched_rng, 250))
		task_yield();
	/* One that a process which is gone has held is free: it was a static one. */
	while (l->holder && l->holder->used && l->holder->proc == current && l->holder != running)
		task_sleep(US);
	l->holder = running;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	if (!current)
		return __real_pthread_mutex_unlock(m);
	lock_of(m)->holder = NULL;
	if (rng_chance(&sched_rng, 250))
		task_yield();
	return 0;
}

/* At most one thread waits for each condition of the product. */
struct condition {
	struct task *waiter;
};

static struct condition *condition_of(pthread_cond_t *c)
{
	_Static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "a condition fits");
	return (struct condition *)(void *)c;
}

int __wrap_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr)
{
	if (!current)
		return __real_pthread_cond_init(c, attr);
	memset(c, 0, sizeof *c);
	return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *c)
{
	return current ? 0 : __real_pthread_cond_destroy(c);
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	if (!current)
		return __real_pthread_cond_wait(c, m);
	if (condition_of(c)->waiter)
		abort();
	condition_of(c)->waiter = running;
	lock_of(m)->holder = NULL;
	step();
	task_wait(NEVER);
	condition_of(c)->waiter = NULL;
	return __wrap_pthread_mutex_lock(m);
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
	if (!current)
		return __real_pthread_cond_signal(c);
	step();
	if (condition_of(c)->waiter)
		task_wake(condition_of(c)->waiter);
	return 0;
}
