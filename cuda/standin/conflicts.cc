#include "cuda/standin/conflicts.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <list>

#include "cuda/standin/machine.h"

namespace
{

/* Streams that have the same number, one after another. */
struct numbered {
	uint64_t queued; /* operations */
	bool taken;
};

/* They stay when the process ends, because threads may still run. */
std::vector<numbered> &numbers = *new std::vector<numbered>();
Known &host = *new Known();
/* Operations of which the host does not know that they have ended, in the order in which they
 * were queued. */
std::list<std::shared_ptr<deed>> &unknown = *new std::list<std::shared_ptr<deed>>();

uint64_t count(const Known &known, unsigned stream)
{
	return stream < known.size() ? known[stream] : 0;
}

bool is_told(const deed &d)
{
	return count(host, d.stream) >= d.index;
}

/* A touch of @d of some of the bytes of @a, if one of both writes. NULL: none. */
const touch *find(const deed &d, const touch &a)
{
	const uintptr_t begin = (uintptr_t)a.p, end = begin + a.bytes;

	for (const touch &b : d.touches) {
		const uintptr_t b_begin = (uintptr_t)b.p, b_end = b_begin + b.bytes;
		if ((a.writes || b.writes) && std::max(begin, b_begin) < std::min(end, b_end))
			return &b;
	}
	return NULL;
}

struct sentence {
	char text[200];

	sentence(const deed &d, const touch &a)
	{
		snprintf(text, sizeof text,
		         "operation %llu, %s in stream %u of device %d, %s %zu bytes from %p on",
		         (unsigned long long)d.serial, d.what, d.stream, d.device,
		         a.writes ? "writes" : "reads", a.bytes, a.p);
	}
};

/* ---- what a copy reads and writes in host memory ---- */

/* Source: Fowler, Noll, Vo, FNV-1a, by words. */
uint64_t sum_of(const touch &a)
{
	const uint8_t *p = (const uint8_t *)a.p;
	uint64_t sum = 0xcbf29ce484222325u, word;
	size_t i = 0;

	for (; i + sizeof word <= a.bytes; i += sizeof word) {
		memcpy(&word, p + i, sizeof word);
		sum = (sum ^ word) * 0x100000001b3u;
	}
	for (; i < a.bytes; i++)
		sum = (sum ^ p[i]) * 0x100000001b3u;
	return sum;
}

bool is_garbage(const touch &a)
{
	const uint8_t *p = (const uint8_t *)a.p;

	return a.bytes == 0 || (*p == GARBAGE && memcmp(p, p + 1, a.bytes - 1) == 0);
}

void watch(deed &d)
{
	if (d.host->writes) {
		d.late.resize(d.host->bytes);
		memset((void *)d.host->p, GARBAGE, d.host->bytes);
	} else {
		d.sum = sum_of(*d.host);
	}
}

void arrive(const deed &d)
{
	if (!d.late.empty())
		memcpy((void *)d.host->p, d.late.data(), d.late.size());
}

/* From now on the changes there are not the host's. */
void share(deed &d)
{
	if (d.shared)
		return;
	d.shared = true;
	if (d.done)
		arrive(d);
}

/* The host knows from now on that it has ended. */
void end(deed &d)
{
	if (!d.host || d.shared)
		return;
	if (d.host->writes ? !is_garbage(*d.host) : sum_of(*d.host) != d.sum)
		undefined("%s; the host changed them before it was told that this had ended",
		          sentence(d, *d.host).text);
	arrive(d);
}

} // namespace

/* ---- operations ---- */

void learn(Known &known, const Known &from)
{
	if (known.size() < from.size())
		known.resize(from.size());
	for (size_t i = 0; i < from.size(); i++)
		if (known[i] < from[i])
			known[i] = from[i];
}

void conflicts_queue(cudaStream_t s, uint64_t serial, const std::shared_ptr<deed> &d)
{
	bool alone = true; /* is d->host */

	d->serial = serial;
	d->device = s->device;
	d->stream = s->number;
	d->index = ++numbers[s->number].queued;
	learn(s->known, host);
	for (const std::shared_ptr<deed> &x : unknown)
		for (const touch &a : d->touches) {
			const touch *b = find(*x, a);
			if (!b)
				continue;
			if (count(s->known, x->stream) < x->index)
				undefined("%s; %s; nothing orders them", sentence(*d, a).text,
				          sentence(*x, *b).text);
			if (b == x->host)
				share(*x);
			alone = alone && &a != d->host;
		}
	if (s->known.size() <= s->number)
		s->known.resize(s->number + 1);
	s->known[s->number] = d->index;
	if (!alone)
		d->host = NULL;
	if (d->host)
		watch(*d);
	unknown.push_back(d);
}

void conflicts_done(deed &d)
{
	d.done = true;
	if (d.shared)
		arrive(d);
}

void conflicts_tell(const Known &known)
{
	learn(host, known);
	for (const std::shared_ptr<deed> &d : unknown)
		if (is_told(*d))
			end(*d);
	unknown.remove_if([](const std::shared_ptr<deed> &d) { return is_told(*d); });
}

void conflicts_forget(int device)
{
	unknown.remove_if([=](const std::shared_ptr<deed> &d) { return d->device == device; });
}

void conflicts_release(const void *p, size_t bytes)
{
	for (const std::shared_ptr<deed> &d : unknown)
		if (const touch *a = find(*d, {p, bytes, true}))
			undefined("%s; the host releases memory there before it was told that this "
			          "had ended",
			          sentence(*d, *a).text);
}

/* ---- streams ---- */

unsigned conflicts_open(void)
{
	unsigned n = 0;

	while (n < numbers.size() && (numbers[n].taken || count(host, n) < numbers[n].queued))
		n++;
	if (n == numbers.size())
		numbers.push_back({});
	numbers[n].taken = true;
	return n;
}

void conflicts_close(unsigned number)
{
	numbers[number].taken = false;
}
