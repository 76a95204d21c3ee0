/*
 * TCP's congestion control: how the sender of a connection adapts its rate. Each end chooses its
 * own. Thread-safe.
 */
#ifndef COLLCTL_NET_CONGESTION_H
#define COLLCTL_NET_CONGESTION_H

#include "lib/base/err.h"
#include "lib/net/addr.h"

/* Can this process use the congestion control @name? ERR_USAGE: the kernel lacks it, or does not
 * allow it to this user; the text lists those that it has or allows. ERR_RESOURCE: no socket. */
int congestion_check(const char *name, struct err *err);

/* Set the congestion control of @fd to @name, which congestion_check has accepted: before connect()
 * or listen(), so that it also negotiates what it needs, or later. */
void congestion_set(int fd, const char *name);

/* Avoid one that paces (bbr does, even on loopback) if @fd, which is connecting or connected to
 * @peer, does not leave this machine: there pacing only costs time. Best effort. */
void congestion_unpace(int fd, const struct addr *peer);

#endif
