/*
 * The control messages (lib/net/PROTOCOL.md): their types, and their bodies in and out. All
 * decoders check bounds; a malformed body is ERR_INTEGRITY.
 */
#ifndef COLLCTL_JOB_PROTO_H
#define COLLCTL_JOB_PROTO_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/net/gate.h"
#include "lib/net/mesh.h"

#define PROTO_VERSION     4
#define PROTO_RANK_AUTO   UINT32_MAX
#define PROTO_MAX_INPUTS  (1u << 20) /* local inputs of a rank */
#define PROTO_MAX_STREAMS 64
#define PROTO_MAX_SIZE    65536 /* ranks */

enum msg_type {
	MSG_WELCOME = 1, /* coordinator: your rank */
	MSG_INTENT,      /* rank: what it is asked to do */
	MSG_ROSTER,      /* coordinator: what all do, and where they are */
	MSG_ABORT,       /* both ways: this job fails, because ... */
	MSG_BEAT,        /* both ways: alive; and how far, or who is least far */
	MSG_REPORT,      /* rank: a peer or the link to it failed, or does not move */
	MSG_VOTE,        /* rank: its output is complete, with its digest where replicated */
	MSG_VERDICT,     /* coordinator: everybody voted yes: commit */
	MSG_DONE,        /* rank: committed, or why not */
	MSG_FINAL,       /* coordinator: everybody is done, or who could not */
	MSG_ASK,         /* coordinator: show this page of your table */
	MSG_PAGE,        /* rank: that page */
	MSG_PRESENT,     /* rank, after HELLO: where it is and what it brings */
	MSG_JOINED,      /* coordinator, while ranks are missing: who is there */
	MSG_LINKS,       /* rank: its links that failed, before its vote (links.h) */
	MSG_OTHER_JOB,   /* coordinator, before its ABORT: HELLO named another job */
};

enum phase { PHASE_JOIN, PHASE_CONNECT, PHASE_RUN, PHASE_COMMIT };
const char *phase_name(enum phase);
const char *phase_words(enum phase); /* for a sentence: "lost while data were moving" */

/* The opening record of a control connection. */
struct hello {
	uint32_t version;
	uint32_t rank; /* PROTO_RANK_AUTO */
	uint32_t size;
	uint8_t jobtag[8];
	uint8_t launch[8]; /* a hash of the launcher's id; zeros: the job was named by the user */
};
void hello_encode(const struct hello *, uint8_t opening[GATE_OPENING]);
int hello_decode(struct hello *, const uint8_t opening[GATE_OPENING]); /* -1: no such record */

/*
 * What a rank says of itself before all ranks are known: PRESENT. Ranks with --rank auto are sorted
 * by host, addr, input and output, in this order. Texts have no control characters.
 */
#define PRESENT_HOST 65
#define PRESENT_FILE 256
struct presence {
	char host[PRESENT_HOST];   /* its host's name */
	char addr[ADDR_TEXT];      /* its address, whoever coordinates; "": not known */
	char input[PRESENT_FILE];  /* its first input; "": none */
	char output[PRESENT_FILE]; /* its first output; "": none */
	bool has_input;            /* the first input is a file that exists */
	bool finds_root;           /* the root is still to be found: */
	char root[PRESENT_HOST];   /* the rank on this host; "": the one rank that gives an input */
};
void presence_encode(const struct presence *, struct buf *);
int presence_decode(struct presence *, struct view, struct err *);
/* A name, with its end left out where it is too long. */
void presence_set(char *field, size_t cap, const char *text);
/* The order of ranks: as strcmp. */
int presence_compare(const struct presence *, const struct presence *);

/* The coordinator's answer; again, once it knows more. */
struct welcome {
	int rank;
	int coordinator, root;   /* ranks; -1: not known yet */
	char host[PRESENT_HOST]; /* the coordinator's */
};
void welcome_encode(const struct welcome *, struct buf *);
int welcome_decode(struct welcome *, struct view, struct err *);

/* Who has joined so far: JOINED. */
struct joined {
	uint32_t here, size;
	bool by_host; /* names: the hosts of those that are here, not the ranks that are missing */
	char names[256]; /* "2, 5-7", "nodea, nodeb" */
};
/* Of one by_host, when the time to join is over. Returns @buf. */
char *joined_missing(const struct joined *, char *buf, size_t cap);
void joined_encode(const struct joined *, struct buf *);
int joined_decode(struct joined *, struct view, struct err *);

/*
 * What a rank is asked to do. Facts are what the ranks must agree on, as the user would read them:
 * {"dtype", "f32"}; the coordinator compares the values of those that have the fact, without
 * knowing what it means. Details are what only this rank knows and others have to learn: the job
 * carries them unread, to rank 0 in an intent and from it in a plan.
 */
#define FACTS_MAX  16
#define FACT_NAME  24
#define FACT_VALUE 520
struct fact {
	char name[FACT_NAME], value[FACT_VALUE];
};
#define DETAILS_MAX (8u * PROTO_MAX_SIZE + 4096) /* bytes */
struct intent {
	int nfacts;
	bool crowded; /* more facts than FACTS_MAX were added: it can't be sent */
	struct fact facts[FACTS_MAX];
	char subject[256];     /* the file, for messages */
	char table[FACT_NAME]; /* the fact whose value is a digest of the rank's table, which rank
	                        * 0 can ask for (job_table); "": there is none */
	uint64_t memory;       /* bytes that this rank may use */
	uint32_t ninputs;
	uint32_t streams;          /* asked for; 0: any */
	char data_addr[ADDR_TEXT]; /* where its data listener is; ":port": at the address that the
	                            * coordinator is reached by; "": none */
	struct view details;       /* the memory is the caller's; of a decoded one, the message's */
};
/* A value that is too long is cut, and a hash of the whole follows: other values stay others. */
void intent_add(struct intent *, const char *name, const char *value);
void intent_encode(const struct intent *, struct buf *);
int intent_decode(struct intent *, struct view, struct err *);

/* A page of a table: entries {str name, str value} until nothing is left. */
#define TABLE_PAGE     (256u << 10) /* bytes, at which a page ends with the entry that reaches them */
#define TABLE_PAGE_MAX (TABLE_PAGE + 2 * (2 + UINT16_MAX)) /* bytes of the longest page */
void table_put(struct buf *page, const char *name, const char *value);

/* A rank's vote for the commit. */
#define VOTE_DIGEST 16
struct vote {
	bool has_digest; /* of a result that all have */
	uint8_t digest[VOTE_DIGEST];
	bool has_table; /* of which that is the digest */
};
void vote_encode(const struct vote *, struct buf *);
int vote_decode(struct vote *, struct view, struct err *);

/* How far a rank is (job_moved): its BEAT. */
struct beat {
	enum phase phase;
	uint64_t moved, total;
	uint64_t acknowledged; /* bytes, by the machines of the peers that it sends to */
};
void beat_encode(const struct beat *, struct buf *);
int beat_decode(struct beat *, struct view, struct err *);

/* Who is least far, by what the ranks have said: the coordinator's BEAT. */
struct pace {
	int rank; /* -1: nobody is known to be behind */
	enum phase phase;
	double done;    /* the fraction of its bytes that it has moved: 0 to 1 */
	uint64_t moved; /* by all ranks: a number that changes as long as any of them goes on */
};
void pace_encode(const struct pace *, struct buf *);
int pace_decode(struct pace *, struct view, struct err *);

/* What all do: decided by rank 0, told to all. */
struct plan {
	char algorithm[32]; /* "": none, no mesh */
	uint8_t dtype;      /* of the buffers and the wire */
	uint32_t windows, streams;
	uint64_t total_inputs; /* over all ranks */
	uint64_t memory;       /* the smallest of all ranks */
	uint32_t host_cpus;    /* all ranks are on rank 0's host, which lets it have so many
	                        * processors; 0: they are on several. Known when decide is called */
	uint8_t session[MESH_SESSION_BYTES];
	uint8_t key[TLS_KEY_BYTES];
	struct view details; /* for one rank alone; the memory as that of an intent's */
};
void plan_encode(const struct plan *, struct buf *);
int plan_decode(struct plan *, struct view *, struct err *);

/* ABORT, DONE, FINAL, REPORT: an error with the phase in which it happened. */
void err_encode(const struct err *, enum phase, struct buf *);
int err_decode(struct err *, enum phase *, struct view *);

#endif
