/*
 * The size to which the kernel lets the buffers of TCP sockets grow. Thread-safe.
 */
#ifndef COLLCTL_NET_SOCKET_BUFFER_H
#define COLLCTL_NET_SOCKET_BUFFER_H

#include <stdint.h>

/* The bytes that one connection of this machine can have on its way, about: half of the smaller
 * buffer, because the kernel's accounts of them take as much again. 0: not known. @sysctls: the
 * folder of tcp_wmem and tcp_rmem, /proc/sys/net/ipv4. */
uint64_t socket_buffer_most(const char *sysctls);

#define SOCKET_BUFFER_SYSCTLS "/proc/sys/net/ipv4"

#endif
