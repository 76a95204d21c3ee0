/*
 * The speed of network interfaces. Thread-safe.
 */
#ifndef COLLCTL_NET_IFACE_H
#define COLLCTL_NET_IFACE_H

#include <stdint.h>

/* The speed of the interface that has the local address of the connected socket @fd, in bytes per
 * second. 0: not known, or a virtual one (a tunnel, a bridge, the loopback), whose speed says
 * nothing about the network. */
uint64_t iface_speed_of(int fd);

/* The speed of the interface @name by the folder @net, which is /sys/class/net. */
uint64_t iface_speed(const char *net, const char *name);

#endif
