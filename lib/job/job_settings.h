/*
 * The settings by which this rank joins a job of any kind: its number, where the ranks meet, the
 * secret, addresses, time limits. Defaults: rank, secret_fd, tls_key_password_fd and cancel_fd are
 * -1; all others are 0. The caller owns the strings.
 */
#ifndef COLLCTL_JOB_JOB_SETTINGS_H
#define COLLCTL_JOB_JOB_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/crypto/credentials.h"
#include "lib/net/addr.h"

#define SETTINGS_RANK_AUTO (-2)

enum job_lanes {
	JOB_LANES_AUTO,   /* memory lanes; TCP where they do not work */
	JOB_LANES_TCP,    /* TCP alone */
	JOB_LANES_MEMORY, /* memory lanes; it is an error where they do not work */
};

struct job_settings {
	int64_t started; /* clock_ns() when the settings were made */
	int size;        /* <= 0: not given */
	int rank;        /* -1: not given; SETTINGS_RANK_AUTO */
	const char *rendezvous, *hostfile;
	const char *job;         /* NULL: the launcher's id, or "default" */
	const char *ticket_file; /* of `collctl invite`; "-": stdin */
	const char *secret_file;
	int secret_fd; /* -1 */
	/* Files of certificates, instead of a secret. {rank}, {size} and {host} in their names are
	 * replaced. */
	const char *tls_cert, *tls_key, *tls_ca, *tls_crl;
	int tls_key_password_fd; /* -1 */
	ask_password *ask;       /* as in credentials_conf */
	const char *store_token_file, *store_ca, *store_cert, *store_key;
	bool insecure;
	struct address_settings addresses;
	int64_t join_timeout, timeout; /* ns */
	/* The fewest ranks with which the job begins (0: all), and after how long it begins with
	 * fewer than all, ns; have_grace: the caller has set it. */
	int min_ranks;
	int64_t grace;
	bool have_grace;
	uint64_t memory;     /* bytes that this rank may use */
	uint64_t limit_rate; /* the most bytes per second over its data connections; 0: no limit */
	struct {
		uint64_t up, down; /* bytes per second between this host and others; 0: not given */
	} link;
	const char *congestion; /* TCP's, of its data connections and control links; NULL: the
	                           kernel's */
	enum job_lanes lanes;   /* between ranks of one host */

	/* The job runs in another program: do not change the process's signals, its core limit and
	 * who may read its memory. */
	bool embedded;
	int cancel_fd;           /* an eventfd by which such a program cancels the job; -1: none */
	bool ignore_environment; /* read no environment variables, of launchers or COLLCTL_SECRET
	                            ... */
};

#endif
