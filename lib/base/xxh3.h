/*
 * XXH3 over long inputs, with the vectors of the machine that the program runs on. On x86-64
 * libxxhash chooses them at run time, by the header below; on other processors it is compiled for
 * the vectors that all of them have (NEON).
 */
#ifndef COLLCTL_BASE_XXH3_H
#define COLLCTL_BASE_XXH3_H

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#endif

#endif
