#include "lib/base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int library_open(const struct library *l, struct err *err)
{
	char symbol[128];
	void *lib = NULL;

	if (LIBRARIES_ARE_LINKED) {
		for (size_t i = 0; i < l->nfunctions; i++)
			memcpy(l->functions[i].to, &l->functions[i].linked, sizeof(void *));
		return 0;
	}
	for (int i = 0; !lib && l->names[i]; i++)
		lib = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return err_set(err, ERR_RESOURCE, "%s is needed %s (apt install %s): %s",
		               l->names[0], l->purpose, l->package, dlerror());
	for (size_t i = 0; i < l->nfunctions; i++) {
		snprintf(symbol, sizeof symbol, "%s%s", l->prefix, l->functions[i].name);
		void *f = dlsym(lib, symbol);
		if (!f)
			return err_set(err, ERR_RESOURCE, "%s has no %s", l->names[0], symbol);
		memcpy(l->functions[i].to, &f, sizeof f);
	}
	return 0;
}
