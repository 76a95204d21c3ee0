/*
 * Libraries that are opened at run time (dlopen), by the commands that need them. The static
 * program (lib/static.mk) and those of the wheel (python/wheel.mk) contain them instead: they are
 * compiled with COLLCTL_LINKED. COLLCTL_STATIC says that the C library is linked statically, too.
 */
#ifndef COLLCTL_BASE_LIBRARY_H
#define COLLCTL_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct library {
	const char *names[3]; /* file names, tried in this order; ends with NULL */
	const char *purpose;  /* "for .npz" */
	const char *package;  /* Debian's */
	const char *prefix;   /* of all functions: "zip_" */
	const struct library_function {
		const char *name;     /* without the prefix */
		void *to;             /* the function pointer that is set */
		void (*linked)(void); /* the function, if the program contains it */
	} * functions;                /* ends with a row without a name */
	int (*begin)(struct err *);   /* called once, after it was opened; may be NULL */
	struct library_state {
		bool asked;
		struct err missing; /* why it cannot be used */
	} * state;
};

/*
 * LIBRARIES_ARE_LINKED: does the program contain them all? Then it opens none of them at run time.
 * PROGRAM_IS_STATIC: does it contain the C library, too? Then it can open nothing at run time.
 * LIBRARY_LINKED: the value of the member `linked` for @function.
 *
 * LIBRARY: defines the struct library @variable, and its note. @table lists the functions, each
 * followed by a comma. The strings after @begin_ are one or two file names.
 *
 * LIBRARY_NOTE: a note in the section .note.dlopen, which tells packagers that the library may be
 * opened (https://uapi-group.org/specifications/specs/elf_dlopen_metadata/). The strings after
 * @purpose are one or two file names. debian/recommends.sh makes package dependencies from these
 * notes.
 */
#ifdef COLLCTL_STATIC
#define PROGRAM_IS_STATIC true
#else
#define PROGRAM_IS_STATIC false
#endif
#ifdef COLLCTL_LINKED
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

/* Open the library, unless the program contains it, and set the pointers to its functions. Only the
 * first call does so; later ones return the same result. The library is never closed. ERR_RESOURCE
 * names the package to install. Thread-safe. */
int library_open(const struct library *, struct err *err);

#endif
