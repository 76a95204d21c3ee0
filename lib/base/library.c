#include "lib/base/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int load(const struct library *l, struct err *err)
{
	char symbol[128];
	void *lib = NULL;

	if (LIBRARIES_ARE_LINKED) {
		for (const struct library_function *f = l->functions; f->name; f++)
			memcpy(f->to, &f->linked, sizeof(void *));
		return 0;
	}
	for (int i = 0; !lib && l->names[i]; i++)
		lib = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return err_set(err, ERR_RESOURCE, "%s is needed %s (apt install %s): %s",
		               l->names[0], l->purpose, l->package, dlerror());
	for (const struct library_function *f = l->functions; f->name; f++) {
		snprintf(symbol, sizeof symbol, "%s%s", l->prefix, f->name);
		void *found = dlsym(lib, symbol);
		if (!found)
			return err_set(err, ERR_RESOURCE, "%s has no %s", l->names[0], symbol);
		memcpy(f->to, &found, sizeof found);
	}
	return 0;
}

int library_open(const struct library *l, struct err *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct library_state *state = l->state;

	pthread_mutex_lock(&lock);
	if (!state->asked) {
		state->missing = ERR_INIT;
		if (load(l, &state->missing) == 0 && l->begin)
			l->begin(&state->missing);
		state->asked = true;
	}
	pthread_mutex_unlock(&lock);
	return state->missing.code ? err_pass(err, &state->missing) : 0;
}
