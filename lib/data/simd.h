/*
 * How a kernel is compiled. KERNEL marks a function whose loop is built for several vector lengths,
 * of which the loader picks the machine's; ELEMENTWISE stands before a loop whose operands coincide
 * or are disjoint, so that no iteration depends on another and no run-time check is needed.
 */
#ifndef COLLCTL_DATA_SIMD_H
#define COLLCTL_DATA_SIMD_H

/* gcc 12 is the first to know these names here; a sanitizer's run-time is not up when the loader
 * calls the resolvers. Elsewhere there is one version, for the target of the build. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12 && \
        !defined(COLLCTL_SANITIZED)
#define KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
/* Where a vector of differences and sums of products alternate, gcc 12 fuses them even against
 * -ffp-contract=off if the machine can; so for one that can't. */
#define KERNEL_UNFUSED __attribute__((target_clones("avx2", "default")))
#else
#define KERNEL
#define KERNEL_UNFUSED
#endif

#if defined(__clang__) && defined(COLLCTL_SANITIZED)
#define ELEMENTWISE /* clang warns where a sanitizer's checks are in the way of a vector */
#elif defined(__clang__)
#define ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ELEMENTWISE _Pragma("GCC ivdep")
#endif

#endif
