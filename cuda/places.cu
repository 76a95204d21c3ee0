/*
 * Where memory is: a table of what the caller has, by address. The driver's own answer costs a call
 * for each operand, and names pinned memory otherwise where the machine is confidential.
 */
#include "cuda/gpu.h"

#include <stdlib.h>
#include <string.h>

/* The number of places that begin at or before @p. */
static size_t count_before(const struct gpu *gpu, const void *p)
{
	size_t least = 0, most = gpu->nplaces;

	while (least < most) {
		const size_t middle = (least + most) / 2;
		if ((uintptr_t)gpu->places[middle].p <= (uintptr_t)p)
			least = middle + 1;
		else
			most = middle;
	}
	return least;
}

int place_of(const struct gpu *gpu, const void *p, uint64_t bytes)
{
	const size_t before = count_before(gpu, p);

	if (before == 0)
		return PLACE_UNKNOWN;
	const struct place *place = &gpu->places[before - 1];
	const uint64_t at = (uintptr_t)p - (uintptr_t)place->p;
	return at <= place->bytes && bytes <= place->bytes - at ? place->device : PLACE_UNKNOWN;
}

bool place_add(struct gpu *gpu, const void *p, size_t bytes, int device)
{
	if (gpu->nplaces == gpu->places_room) {
		const size_t room = gpu->places_room ? 2 * gpu->places_room : 64;
		void *more = realloc(gpu->places, room * sizeof *gpu->places);
		if (!more)
			return false;
		gpu->places = (struct place *)more;
		gpu->places_room = room;
	}
	const size_t at = count_before(gpu, p);
	struct place *place = &gpu->places[at];
	memmove(place + 1, place, (gpu->nplaces - at) * sizeof *place);
	gpu->nplaces++;
	*place = {p, bytes, device};
	return true;
}

void place_remove(struct gpu *gpu, const void *p)
{
	const size_t before = count_before(gpu, p);

	if (before == 0 || gpu->places[before - 1].p != p)
		return;
	struct place *place = &gpu->places[before - 1];
	memmove(place, place + 1, (gpu->nplaces - before) * sizeof *place);
	gpu->nplaces--;
}
