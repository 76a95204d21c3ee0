/*
 * Libraries that are opened at run time, by the commands that need them. A program that is linked
 * statically (COLLCTL_STATIC, lib/static.mk) contains them instead.
 */
#ifndef COLLCTL_BASE_LIBRARY_H
#define COLLCTL_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct library {
	const char *names[3]; /* the first that is found; NULL behind the last */
	const char *purpose;  /* "for .npz" */
	const char *package;  /* Debian's */
	const char *prefix;   /* of all functions: "zip_" */
	const struct library_function {
		const char *name;     /* without the prefix */
		void *to;             /* the function pointer that is set */
		void (*linked)(void); /* the function, if the program contains it */
	} * functions;                /* behind the last: no name */
	int (*begin)(struct err *);   /* what is done once it is open; may be NULL */
	struct library_state {
		bool asked;
		struct err missing; /* why it cannot be used */
	} * state;
};

/*
 * LIBRARIES_ARE_LINKED: does the program contain them all? It then opens nothing at run time.
 * LIBRARY_LINKED: the member `linked` for @function.
 *
 * LIBRARY: the library @variable, and its note. @table has the functions, each with a comma behind
 * it; the strings after @begin_ are one or two names.
 *
 * LIBRARY_NOTE: tell packagers of a library that may be opened, in the section .note.dlopen
 * (https://uapi-group.org/specifications/specs/elf_dlopen_metadata/). The strings after @purpose
 * are one or two names. debian/recommends.sh makes dependencies of these notes.
 */
#ifdef COLLCTL_STATIC
#define LIBRARIES_ARE_LINKED     true
#define LIBRARY_LINKED(function) ((void (*)(void))(function))
#define LIBRARY_NOTE(feature, purpose, ...)
#else
#define LIBRARIES_ARE_LINKED     false
#define LIBRARY_LINKED(function) NULL
#define LIBRARY_NOTE(feature, purpose, ...)                                \
	LIBRARY_NOTE_OF(                                                   \
	        "[{\"feature\":\"" feature "\",\"description\":\"" purpose \
	        "\",\"priority\":\"recommended\",\"soname\":[" LIBRARY_NAMES(__VA_ARGS__) "]}]")
#define LIBRARY_NAMES(first, ...) "\"" first "\"" __VA_OPT__(",\"" __VA_ARGS__ "\"")
#define LIBRARY_NOTE_OF(json)                                                            \
	__attribute__((used, section(".note.dlopen"))) _Alignas(4) static const struct { \
		uint32_t name_bytes, json_bytes, type;                                   \
		char name[4];                                                            \
		_Alignas(4) char text[sizeof(json)];                                     \
	} library_note = {4, sizeof(json), LIBRARY_NOTE_TYPE, "FDO", json}
#define LIBRARY_NOTE_TYPE 0x407c0c0au
#endif

#define LIBRARY(variable, feature, purpose_, package_, prefix_, table, begin_, ...) \
	LIBRARY_NOTE(feature, purpose_, __VA_ARGS__);                               \
	static struct library_state variable##_state;                               \
	static const struct library variable = {                                    \
	        .names = {__VA_ARGS__},                                             \
	        .purpose = purpose_,                                                \
	        .package = package_,                                                \
	        .prefix = prefix_,                                                  \
	        .functions = (const struct library_function[]){table{0}},           \
	        .begin = begin_,                                                    \
	        .state = &variable##_state}

/* Open it, unless the program contains it, and set all its functions; once, by any thread. -1:
 * ERR_RESOURCE, with the package to install, now and later. It stays open. */
int library_open(const struct library *, struct err *err);

#endif
