/*
 * Compiling kernels. KERNEL marks a function that is compiled for several vector lengths; the
 * loader picks the machine's. ELEMENTWISE marks a loop whose operands coincide or are disjoint, so
 * that iterations are independent and need no run-time check.
 */
#ifndef COLLCTL_DATA_KERNELS_SIMD_H
#define COLLCTL_DATA_KERNELS_SIMD_H

/* gcc 12 is the first version that supports these names. With sanitizers this does not work,
 * because the loader calls the resolvers before a sanitizer's run-time is ready. Other builds have
 * one version, for the target of the build. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && __GNUC__ >= 12 && \
        !defined(COLLCTL_SANITIZED)
#define KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
/* If differences and sums of products alternate in a vector, gcc 12 fuses them despite
 * -ffp-contract=off on machines with fused operations. So compile for a machine without them. */
#define KERNEL_UNFUSED __attribute__((target_clones("avx2", "default")))
#else
#define KERNEL
#define KERNEL_UNFUSED
#endif

#if defined(__clang__) && defined(COLLCTL_SANITIZED)
#define ELEMENTWISE /* clang warns if a sanitizer's checks prevent vectorisation */
#elif defined(__clang__)
#define ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define ELEMENTWISE _Pragma("GCC ivdep")
#endif

#endif
