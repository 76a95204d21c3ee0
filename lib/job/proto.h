/*
 * The control messages (lib/net/PROTOCOL.md): their types, and the encoders and decoders of their
 * bodies. Pure functions; any thread.
 *
 * An encoder appends to a buffer, whose errors are sticky (buf.h). A decoder fills its struct,
 * checks all bounds, and returns 0, or -1: ERR_INTEGRITY if the body is malformed, ERR_DISAGREE if
 * a host's name is not valid. One that takes a struct view by value requires that it is the whole
 * body; one that takes a pointer advances the view.
 */
#ifndef COLLCTL_JOB_PROTO_H
#define COLLCTL_JOB_PROTO_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/host_name.h"
#include "lib/base/limits.h"
#include "lib/job/host_groups.h"
#include "lib/net/gate.h"
#include "lib/net/mesh.h"

#define PROTO_VERSION     15
#define PROTO_RANK_AUTO   UINT32_MAX
#define PROTO_MAX_INPUTS  (1u << 20) /* local inputs of a rank */
#define PROTO_MAX_STREAMS 64

enum msg_type {
	MSG_WELCOME = 1, /* coordinator: the rank's number */
	MSG_INTENT,      /* rank: its request */
	MSG_ROSTER,      /* coordinator: the plan, and the ranks' machines */
	MSG_ABORT,       /* both ways: the job has failed, and why */
	MSG_BEAT, /* both ways: heartbeat; a rank's has its progress, the coordinator's the slowest
	             rank */
	MSG_REPORT,  /* rank: a peer, or the link to it, has failed or makes no progress */
	MSG_VOTE,    /* rank: its output is complete; with a digest if all ranks have this output */
	MSG_VERDICT, /* coordinator: all ranks have voted: commit */
	MSG_DONE,    /* rank: it has committed, or why not; and its enum fate */
	MSG_FINAL,   /* coordinator: all ranks have committed, or which rank has not */
	MSG_ASK,     /* coordinator: requests a page of the rank's table */
	MSG_PAGE,    /* rank: that page */
	MSG_PRESENT, /* rank, after HELLO: its host, address and files */
	MSG_JOINED,  /* coordinator, while ranks are missing: which have joined */
	MSG_LINKS,   /* rank: its links that failed, before its vote (failed_links.h) */
	MSG_OTHER_JOB, /* coordinator, before its ABORT: the HELLO is for another job */
	MSG_ROUND,     /* rank: its part of a round (job_round) */
	MSG_ANSWER,    /* coordinator: the answer to a rank, when all parts have come */
	MSG_PEERS,     /* rank: asks for the places of these ranks */
	MSG_PLACES,    /* coordinator: places of ranks */
	MSG_CLOCK,     /* rank: asks for the coordinator's clock; coordinator: its clock */
	MSG_MOVED,     /* rank: its data have moved; coordinator: those of all ranks have */
	MSG_BACK,      /* coordinator: a lane broke: stop (coord_back.c) */
	MSG_STOPPED,   /* rank: it has stopped */
	MSG_AGAIN,     /* coordinator: all have: connect anew */
	MSG_ANEW,      /* coordinator: a rank is lost: send INTENT again (coord_anew.c) */
	MSG_TYPES
};
const char *msg_name(uint8_t type); /* "VERDICT"; "?": there is no such message */

/* The end of REPORT: what its sender does then. */
enum report_then {
	REPORT_ENDS,  /* it waits for the failure of the job */
	REPORT_LANE,  /* only a lane broke: it waits for BACK, too */
	REPORT_WAITS, /* it waits for ANEW, too */
};

enum phase { PHASE_JOIN, PHASE_CONNECT, PHASE_RUN, PHASE_COMMIT };
const char *phase_name(enum phase);
const char *phase_words(enum phase); /* to complete "lost ...": "while data were moving" */

/* The opening record of a control connection. */
struct hello {
	uint32_t version;
	uint32_t rank; /* PROTO_RANK_AUTO */
	uint32_t size;
	uint8_t jobtag[8];
	uint8_t launch[8]; /* a hash of the launcher's id; zeros: the user has named the job */
};
void hello_encode(const struct hello *, uint8_t opening[GATE_OPENING]);
int hello_decode(struct hello *, const uint8_t opening[GATE_OPENING]); /* -1: no such record */

/* The opening record of a control link that replaces a broken one: an inquiry, in which a rank that
 * has voted asks for the verdict and the outcome. */
struct inquiry {
	uint8_t session[MESH_SESSION_BYTES];
	uint32_t rank;
	bool has_verdict;
};
void inquiry_encode(const struct inquiry *, uint8_t opening[GATE_OPENING]);
int inquiry_decode(struct inquiry *, const uint8_t opening[GATE_OPENING]); /* -1: no such record */
/* The identity that it proves, "V1|session|rank"; returns its length. */
int inquiry_identity(const struct inquiry *, char *text, size_t cap);

/*
 * PRESENT: what a rank reports about itself before all ranks are known. Ranks with --rank auto are
 * sorted by host, addr, input and output. The texts have no control characters.
 */
#define PRESENT_HOST HOST_NAME
#define PRESENT_FILE 256
struct presence {
	char host[PRESENT_HOST];   /* its host's name */
	char addr[ADDR_TEXT];      /* its address; "": not known */
	uint8_t host_id[HOST_ID];  /* the identity of its host (host_groups.h) */
	char input[PRESENT_FILE];  /* its first input; "": none */
	char output[PRESENT_FILE]; /* its first output; "": none */
	bool has_input;            /* the first input is a file that exists */
	bool finds_root;           /* the coordinator must find the root, by `root` */
	char root[PRESENT_HOST];   /* the root is the rank on this host; "": the only rank with an
	                              input */
	uint32_t age;              /* seconds since the rank was started */
	int64_t started; /* the time of that on the coordinator's clock_ns(); not in the message */
};
void presence_encode(const struct presence *, struct buf *);
int presence_decode(struct presence *, struct view, struct err *);
/* Set a text member: copy @text, cut to @cap. Not for names of hosts (host_name_make). */
void presence_set(char *field, size_t cap, const char *text);
/* Compares in the order of ranks; returns as strcmp does. */
int presence_compare(const struct presence *, const struct presence *);

/* WELCOME: the coordinator's answer to HELLO. It is sent again when more is known. */
struct welcome {
	int rank;
	int coordinator, root;   /* ranks; -1: not known yet */
	char host[PRESENT_HOST]; /* the coordinator's */
};
void welcome_encode(const struct welcome *, struct buf *);
int welcome_decode(struct welcome *, struct view, struct err *);

/* JOINED: which ranks have joined. */
struct joined {
	uint32_t here, size; /* number of ranks that have joined; of all ranks */
	bool by_host; /* names lists the hosts of the ranks that have joined; else the missing ranks
	               */
	char names[256]; /* "nodea, nodeb"; "2, 5-7" */
};
/* The message when the time to join is over, if by_host. Returns @buf. */
char *joined_missing(const struct joined *, char *buf, size_t cap);
void joined_encode(const struct joined *, struct buf *);
int joined_decode(struct joined *, struct view, struct err *);

/*
 * INTENT: the request of a rank. It has facts, on which the ranks must agree, in the user's words:
 * {"dtype", "f32"}. The coordinator compares the values of the ranks that have a fact, without
 * interpreting them. It also has details: data that only this rank knows and that the coordinator
 * needs. The job does not interpret details, neither of an intent nor of a plan.
 */
#define FACTS_MAX  24
#define FACT_NAME  24
#define FACT_VALUE 520
struct fact {
	char name[FACT_NAME], value[FACT_VALUE];
};
#define DETAILS_MAX (8u * JOB_MAX_SIZE + 4096) /* bytes */
struct intent {
	int nfacts;
	bool crowded; /* more than FACTS_MAX facts were added: the intent cannot be sent */
	struct fact facts[FACTS_MAX];
	char subject[256];     /* the file, for messages */
	char table[FACT_NAME]; /* the fact whose value is the digest of the rank's table
	                          (job_table); "": there is no table */
	uint64_t memory;       /* bytes that this rank may use */
	uint32_t ninputs;
	uint32_t streams;          /* requested; 0: any */
	char data_addr[ADDR_TEXT]; /* address of its data listener; ":port": on the address from
	                              which this rank connects to the coordinator; "": none */
	struct view
	        details; /* the caller owns the memory; after decoding they are in the message */
};
/* Add a fact. If @value is too long, it is cut and a hash of all of it is appended, so that
 * different values still differ. */
void intent_add(struct intent *, const char *name, const char *value);
void intent_encode(const struct intent *, struct buf *);
int intent_decode(struct intent *, struct view, struct err *);

/* A page of a table (job_table): entries {str name, str value} up to its end. A page ends with the
 * entry by which it has TABLE_PAGE bytes or more. */
#define TABLE_PAGE     (256u << 10)
#define TABLE_PAGE_MAX (TABLE_PAGE + 2 * (2 + UINT16_MAX)) /* bytes of the longest page */
void table_put(struct buf *page, const char *name, const char *value);

/* How long a rank worked while data moved. A vote has the rank's; VERDICT has that of the rank that
 * worked longest. */
struct workload {
	int rank;       /* -1: not known */
	uint8_t on;     /* what it worked on longest; the job does not interpret it */
	uint64_t most;  /* ns of work on that */
	uint64_t busy;  /* ns of all work, without waiting for other ranks */
	uint64_t total; /* ns during which data moved */
};
void workload_encode(const struct workload *, struct buf *);
int workload_decode(struct workload *, struct view, struct err *err);

/* Which files a rank's outputs are after the verdict. */
enum fate {
	FATE_NOTHING, /* the rank has no outputs */
	FATE_NEW,     /* all are new */
	FATE_OLD,     /* all are old */
	FATE_MIXED,   /* some are old, some new */
};
#define FATES 4

/* VOTE: a rank's vote for the commit. */
#define VOTE_DIGEST 16
struct vote {
	bool has_digest; /* all ranks have this result */
	uint8_t digest[VOTE_DIGEST];
	bool has_table; /* the digest is that of a table (job_table) */
	struct workload work;
};
void vote_encode(const struct vote *, struct buf *);
int vote_decode(struct vote *, struct view, struct err *);

/* BEAT of a rank: its progress. */
struct beat {
	enum phase phase;
	uint64_t moved, total; /* as in job_moved */
	uint64_t acknowledged; /* bytes that the peers' kernels have acknowledged */
};
void beat_encode(const struct beat *, struct buf *);
int beat_decode(struct beat *, struct view, struct err *);

#define PACE_DONE 1000000 /* pace.done: all bytes */
/* BEAT of the coordinator: the slowest rank, by the last beats of all ranks. */
struct pace {
	int rank; /* -1: no rank is known to be slower than the others */
	enum phase phase;
	uint32_t done;  /* moved / total of this rank, in millionths */
	uint64_t moved; /* of all ranks: grows as long as one of them makes progress */
};
void pace_encode(const struct pace *, struct buf *);
int pace_decode(struct pace *, struct view, struct err *);

/* The plan, the first part of ROSTER: the coordinator decides it and sends it to all ranks. */
struct plan {
	char algorithm[32]; /* "": none, no mesh */
	uint8_t dtype;      /* of the buffers and the wire */
	uint32_t windows, streams;
	uint64_t total_inputs; /* of all ranks */
	uint64_t memory;       /* bytes; the smallest of all ranks */
	bool trace;            /* all ranks record what they do (lib/exec/trace.h) */
	uint32_t host_cpus; /* number of processors that the coordinator may use; 0: the ranks are
	                       on several hosts. Set before decide */
	/* Set before decide, by who has come and the identities of hosts. They are in ROSTER after
	 * the plan, not in the plan; the job owns them. */
	int ncame;       /* number of ranks that take part: with --min-ranks perhaps not all */
	const int *came; /* [ncame], ascending: their numbers; NULL: all ranks take part */
	int hosts;       /* number of their hosts */
	/* host[size], as in struct coll_args; -1: a missing rank. NULL: none is missing, and every
	 * rank has its own host. */
	const int *host;
	uint8_t session[MESH_SESSION_BYTES];
	struct view details; /* for this rank only; memory as in an intent */
};
void plan_encode(const struct plan *, struct buf *);
int plan_decode(struct plan *, struct view *, struct err *);

/* The second part of ROSTER. If the job has at most PROTO_PLACES ranks, the places of all ranks
 * follow. In a larger job a rank asks for the places of its peers (PEERS), because otherwise the
 * coordinator would send size^2 places. */
#define PROTO_PLACES 16
struct roster {
	uint32_t size;    /* 1 to JOB_MAX_SIZE */
	int *came, ncame; /* as in the plan, as the next two; after decoding malloced */
	int *host, hosts;
};
void roster_encode(const struct roster *, struct buf *);
int roster_decode(struct roster *, struct view *, struct err *err);
void roster_release(struct roster *); /* of a decoded one */

/* How another rank reaches this rank. */
struct rank_place {
	int rank;
	char addr[ADDR_TEXT];       /* the data_addr of its intent */
	char host[PRESENT_HOST];    /* the name of its host; "": not known, or all ranks are on one
	                               host */
	uint8_t key[TLS_KEY_BYTES]; /* of the pair of the two ranks (pair_keys.h): secret */
};
#define PLACE_MOST (4 + 2 + ADDR_TEXT + 2 + PRESENT_HOST + TLS_KEY_BYTES) /* bytes of a message */
void rank_place_encode(const struct rank_place *, struct buf *);
int rank_place_decode(struct rank_place *, struct view *, struct err *err);

/* STOPPED: the answer to BACK. */
struct stopped {
	bool can;        /* the rank can go back */
	uint64_t window; /* all windows before this one are complete here (exec_complete) */
};
void stopped_encode(const struct stopped *, struct buf *);
int stopped_decode(struct stopped *, struct view, struct err *);

/* AGAIN: the next session. As in ROSTER, the places of all ranks follow in a small job. */
struct again {
	uint8_t session[MESH_SESSION_BYTES]; /* of the lanes */
	uint64_t window;                     /* from which on the data move again */
};
void again_encode(const struct again *, struct buf *);
int again_decode(struct again *, struct view *, struct err *);

/* The tables of these messages (fields.h), for the test of PROTOCOL.md. */
extern const struct message presence_message, welcome_message, joined_message, fact_message,
        intent_message, workload_message, vote_message, beat_message, pace_message, plan_message,
        rank_place_message, stopped_message, again_message;

/* The error in ABORT, DONE, FINAL and REPORT, with the phase in which it happened. err_decode: -1:
 * malformed. */
void err_encode(const struct err *, enum phase, struct buf *);
int err_decode(struct err *, enum phase *, struct view *);

#endif
