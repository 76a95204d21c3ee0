#include "cuda/standin/machine.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define QUARTERS 4

namespace
{

uint64_t seed(void)
{
	const char *text = getenv("COLLCTL_STANDIN_DELAY");
	const char *comma = text ? strchr(text, ',') : NULL;
	return comma ? strtoull(comma + 1, NULL, 10) : 1;
}

machine *make(void)
{
	machine *made = new machine();
	made->late = (int64_t)standin_setting("COLLCTL_STANDIN_DELAY", 0) * 1000;
	made->dice = seed();
	made->direct = standin_setting("COLLCTL_STANDIN_DIRECT", 0);
	return made;
}

int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

} // namespace

/* It stays when the process ends, because threads may still run. */
machine &m = *make();

unsigned long long standin_setting(const char *name, unsigned long long otherwise)
{
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

void undefined(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "stand-in: %s\n", text);
	abort();
}

/* Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (splitmix64). */
uint64_t draw(uint64_t n)
{
	uint64_t z = m.dice += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % n;
}

bool is_strict(void)
{
	return m.late > 0;
}

bool is_odd(void)
{
	return is_strict() && draw(2);
}

/* ---- memory ---- */

region *region_of(const void *p)
{
	auto at = m.regions.upper_bound((const uint8_t *)p);
	if (at == m.regions.begin())
		return NULL;
	region *r = &(--at)->second;
	return (const uint8_t *)p < r->p + r->bytes ? r : NULL;
}

bool inside(const void *p, size_t bytes, int device)
{
	const region *r = region_of(p);
	return r && r->device == device && bytes <= (size_t)(r->p + r->bytes - (const uint8_t *)p);
}

void use(region *r, int change)
{
	const bool was = r->users > 0;
	r->users += change;
	if (r->device != HOST && !m.direct && was != (r->users > 0) &&
	    mprotect(r->p, room_of(r->bytes, r->device),
	             was ? PROT_NONE : PROT_READ | PROT_WRITE) != 0)
		abort();
	if (r->users == 0)
		m.ended.notify_all();
}

/* The memory of devices, and pinned memory, that an operation of @device reaches. */
static std::vector<region *> reached(int device, const operation &o)
{
	std::vector<region *> all;
	for (const touch &a : o.does->touches) {
		region *r = region_of(a.p);
		if (r && (!o.is_kernel || r->device == device || r->device == HOST ||
		          m.devices[device].access[r->device]))
			all.push_back(r);
	}
	return all;
}

void await_users(Lock &lock, const region *r)
{
	while (r->users > 0)
		m.ended.wait(lock);
}

static bool runs(int device, uint64_t last)
{
	for (const auto &at : m.pending) {
		if (at.first > last)
			break;
		if ((device == HOST || at.second == device) &&
		    m.devices[at.second].error == cudaSuccess)
			return true;
	}
	return false;
}

void await_device(Lock &lock, int device)
{
	const uint64_t last = m.serial;
	while (runs(device, last))
		m.ended.wait(lock);
}

/* ---- what a stream does ---- */

static bool is_fine(int device)
{
	return m.devices[device].error == cudaSuccess;
}

static void rest(Lock &lock, cudaStream_t s, int64_t until)
{
	for (int64_t left; is_fine(s->device) && (left = until - now()) > 0;)
		s->more.wait_for(lock, std::chrono::nanoseconds(left));
}

/* Until when a device of this rate copies. */
static int64_t copied(cudaStream_t s, const operation &o)
{
	const uint64_t rate = standin_setting("COLLCTL_STANDIN_RATE", 0);
	int64_t until = now();
	if (rate && o.bytes) {
		int64_t &busy = m.devices[s->device].copies_until[o.direction];
		until = (busy > until ? busy : until) +
		        (int64_t)((double)o.bytes * 1e9 / (double)rate);
		busy = until;
	}
	return until;
}

/* Its streams do no more, and nobody waits for it. */
static void fail_device(int device)
{
	m.devices[device].error = cudaErrorLaunchFailure;
	conflicts_forget(device);
	for (mark *waited : m.marks)
		waited->changed.notify_all();
	m.ended.notify_all();
}

[[noreturn]] static void hang(Lock &lock, cudaStream_t s)
{
	s->stuck = true;
	for (;;)
		s->more.wait(lock);
}

static void run_part(Lock &lock, cudaStream_t s, const operation &o, unsigned part)
{
	const std::vector<region *> all = reached(s->device, o);
	for (region *r : all)
		use(r, 1);
	lock.unlock();
	o.work(part, o.parts);
	lock.lock();
	for (region *r : all)
		use(r, -1);
}

static void run(Lock &lock, cudaStream_t s, operation &o)
{
	for (unsigned i = 0; i < o.parts; i++) {
		if (is_strict())
			rest(lock, s, now() + o.pauses[i]);
		if (o.hangs && i == o.stops)
			hang(lock, s);
		if (!is_fine(s->device))
			return;
		if (o.fails && i == o.stops) {
			fail_device(s->device);
			return;
		}
		run_part(lock, s, o, o.order[i]);
	}
	if (is_fine(s->device))
		conflicts_done(*o.does);
	rest(lock, s, copied(s, o) + (is_strict() ? o.pauses[o.parts] : 0));
}

/* Streams that share a connection do their work in the order in which it was queued.
 * Source: CUDA programming guide, "CUDA_DEVICE_MAX_CONNECTIONS". */
static void begin_turn(Lock &lock, cudaStream_t s, uint64_t serial)
{
	if (s->connection)
		while (m.devices[s->device].connections[s->connection].front() != serial)
			m.ended.wait(lock);
}

static void end_turn(cudaStream_t s, uint64_t serial)
{
	if (s->connection)
		m.devices[s->device].connections[s->connection].pop_front();
	m.pending.erase(serial);
	m.ended.notify_all();
}

static void do_operation(Lock &lock, cudaStream_t s, operation &o)
{
	s->busy = true;
	begin_turn(lock, s, o.serial);
	if (o.step)
		o.step(lock);
	else
		run(lock, s, o);
	end_turn(s, o.serial);
	s->busy = false;
}

static void stream_main(cudaStream_t s)
{
	Lock lock(m.lock);
	for (;;) {
		while (s->queue.empty() && !s->stop)
			s->more.wait(lock);
		if (s->queue.empty())
			break;
		operation o = std::move(s->queue.front());
		s->queue.pop_front();
		do_operation(lock, s, o);
	}
	if (!s->orphan)
		return;
	delete s->thread;
	delete s;
}

/* ---- what a stream is given ---- */

/* A stream's thread begins with its first operation; signals are for the program's own threads. */
static void queue(Lock &lock, cudaStream_t s, operation &&o)
{
	o.serial = ++m.serial;
	m.pending[o.serial] = s->device;
	if (s->connection)
		m.devices[s->device].connections[s->connection].push_back(o.serial);
	if (m.direct && !o.waits && !s->busy && s->queue.empty()) {
		do_operation(lock, s, o);
		return;
	}
	s->queue.push_back(std::move(o));
	if (!s->thread) {
		sigset_t all, before;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		s->thread = new std::thread(stream_main, s);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	s->more.notify_all();
}

void queue_step(Lock &lock, cudaStream_t s, bool waits, std::function<void(Lock &)> step)
{
	const uint64_t late =
	        is_odd() && is_odd() ? draw((uint64_t)m.late) * s->slow / QUARTERS : 0;
	operation o = {};
	o.step = [=](Lock &held) {
		if (late)
			rest(held, s, now() + (int64_t)late);
		step(held);
	};
	o.waits = waits;
	queue(lock, s, std::move(o));
}

/* The order of the parts, and the pauses, which together are @late at most. */
static void shuffle(operation &o, uint64_t late)
{
	for (unsigned i = 0; i < o.parts; i++)
		o.order.push_back(i);
	if (!is_strict())
		return;
	for (unsigned i = o.parts; i > 1; i--)
		std::swap(o.order[i - 1], o.order[draw(i)]);
	for (unsigned i = 0; i <= o.parts; i++)
		o.pauses.push_back(draw(2) ? (int64_t)draw(late / (o.parts + 1) + 1) : 0);
	o.stops = (unsigned)draw(o.parts);
}

cudaError_t queue_work(Lock &lock, cudaStream_t s, operation &&o, bool counts)
{
	if (!is_fine(s->device))
		return m.devices[s->device].error;
	m.begun += counts;
	o.fails = counts && m.begun == standin_setting("COLLCTL_STANDIN_FAIL", 0);
	o.hangs = counts && m.begun == standin_setting("COLLCTL_STANDIN_HANG", 0);
	conflicts_queue(s, m.serial + 1, o.does);
	shuffle(o, 2 * (uint64_t)m.late * s->slow / QUARTERS);
	queue(lock, s, std::move(o));
	return cudaSuccess;
}

std::shared_ptr<mark> mark_end(Lock &lock, cudaStream_t s)
{
	auto end = std::make_shared<mark>();
	end->device = s->device;
	end->known = s->known;
	m.marks.insert(end.get());
	queue_step(lock, s, false, [=](Lock &) {
		end->reached = is_fine(s->device);
		m.marks.erase(end.get());
		end->changed.notify_all();
	});
	return end;
}

void await_mark(Lock &lock, mark &waited)
{
	while (!waited.reached && is_fine(waited.device))
		waited.changed.wait(lock);
}

void await_told(Lock &lock, mark &waited)
{
	await_mark(lock, waited);
	if (waited.reached)
		conflicts_tell(waited.known);
}

/* After "K,hang" the streams of other devices wait for ever for a device that has failed. */
static bool waits_for_ever(void)
{
	const char *fails = getenv("COLLCTL_STANDIN_FAIL");
	const char *how = fails ? strchr(fails, ',') : NULL;
	return how && strcmp(how, ",hang") == 0;
}

void follow(Lock &lock, cudaStream_t s, std::shared_ptr<mark> waited)
{
	if (waited)
		learn(s->known, waited->known);
	if (!waited || waited->reached)
		return;
	queue_step(lock, s, true, [=](Lock &held) {
		while (!waited->reached && is_fine(waited->device) && is_fine(s->device))
			waited->changed.wait(held);
		if (!waited->reached && is_fine(s->device) && waits_for_ever())
			hang(held, s);
	});
}

/* ---- streams ---- */

cudaStream_t stream_make(int device)
{
	static const unsigned slow[] = {0, QUARTERS / 2, QUARTERS, 2 * QUARTERS};
	const unsigned connections = (unsigned)standin_setting("CUDA_DEVICE_MAX_CONNECTIONS", 0);
	cudaStream_t s = new CUstream_st();
	s->device = device;
	s->number = conflicts_open();
	s->slow = is_strict() ? slow[draw(4)] : QUARTERS;
	if (connections)
		s->connection = 1 + m.devices[device].streams++ % connections;
	return s;
}

void stream_end(Lock &lock, cudaStream_t s)
{
	s->stop = true;
	conflicts_close(s->number);
	s->more.notify_all();
	if (s->stuck)
		return;
	if (s->thread && (s->busy || !s->queue.empty()) && is_fine(s->device) && is_strict()) {
		s->orphan = true;
		s->thread->detach();
		return;
	}
	lock.unlock();
	if (s->thread)
		s->thread->join();
	delete s->thread;
	delete s;
	lock.lock();
}
