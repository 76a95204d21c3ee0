/*
 * How this rank joins a job: its number, the meeting place of the ranks, the secret, the addresses
 * and the time limits. The same for every kind of job. Members that are not set have these
 * defaults: rank -1, secret_fd -1, tls_key_password_fd -1, cancel_fd -1, all others zero.
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
	const char *job; /* NULL: the launcher's id, or "default" */
	const char *secret_file;
	int secret_fd; /* -1 */
	/* Certificates in place of a secret. In their names {rank}, {size} and {host} are replaced.
	 */
	const char *tls_cert, *tls_key, *tls_ca, *tls_crl;
	int tls_key_password_fd; /* -1 */
	ask_password *ask;       /* for the password of an encrypted key; NULL: nobody to ask */
	const char *store_token_file, *store_ca, *store_cert, *store_key;
	bool insecure;
	struct address_settings addresses;
	int64_t join_timeout, timeout; /* ns */
	uint64_t memory;               /* bytes that this rank may use */
	uint64_t limit_rate;  /* bytes per second that it sends over its data connections; 0: any */
	enum job_lanes lanes; /* between ranks of a host */

	/* The process belongs to another program: its signals, its core limit and who may read its
	 * memory stay as they are. */
	bool embedded;
	int cancel_fd;           /* of such a program: an eventfd that ends the job; -1: none */
	bool ignore_environment; /* read no variables: a launcher's, COLLCTL_SECRET, ... */
};

#endif
