#include "lib/store/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/store/keeper.h"
#include "lib/store/record.h"
#include "lib/store/store.h"

#define STORE_WAIT (30 * NS_PER_SEC) /* of one blocking query */

struct rendezvous {
	struct rendezvous_conf conf;
	struct store *store;
	char key[96];
	struct record_of of;
	uint64_t index; /* ModifyIndex of the record that was read last; 0: none */
	uint64_t wait_index;
	struct suspect suspect; /* about the record at @index */
	struct keeper keeper;   /* of our own record */
	char host[256];         /* from a hostfile or from run */
	int port;
	char trouble[400];
	bool strange; /* the last record did not belong to this job; trouble says why */
	bool told;    /* of a strange record */
};

struct rendezvous *rendezvous_new(const struct rendezvous_conf *conf, struct err *err)
{
	struct rendezvous *r = err_calloc(1, sizeof *r, "the rendezvous", err);
	if (!r)
		return NULL;
	r->conf = *conf;
	snprintf(r->key, sizeof r->key, "collctl/%.64s", conf->job);
	r->of = (struct record_of){r->key, conf->job, conf->secret};
	if (conf->store.url) {
		r->store = store_open(&conf->store, err);
		if (!r->store)
			goto fail;
		store_interrupt(r->store, conf->interrupted, conf->ctx);
		store_tell(r->store, conf->tell, conf->ctx);
	} else if (conf->hosts) {
		const struct hostfile_host *h = &conf->hosts->hosts[0];
		snprintf(r->host, sizeof r->host, "%s", h->name);
		r->port = h->port ? h->port : HOSTFILE_PORT;
	} else if (conf->coordinator) {
		if (addr_split(conf->coordinator, r->host, sizeof r->host, &r->port, err) < 0)
			goto fail;
	}
	return r;
fail:
	rendezvous_free(r);
	return NULL;
}

void rendezvous_free(struct rendezvous *r)
{
	if (!r)
		return;
	keeper_release(&r->keeper);
	store_close(r->store);
	free(r);
}

bool rendezvous_has_store(const struct rendezvous *r)
{
	return r->store != NULL;
}

const char *rendezvous_trouble(const struct rendezvous *r)
{
	return r->trouble;
}

const char *rendezvous_local_address(const struct rendezvous *r, char *buf, size_t cap)
{
	buf[0] = '\0';
	if (r->store && store_local_address(r->store, buf, cap) < 0)
		buf[0] = '\0';
	return buf;
}

/* ---- rank 0 ---- */

/* The address to listen on: --listen, else the given interface, else @fallback. */
static int listen_addr(const struct rendezvous *r, const char *fallback, int port,
                       struct addr *where, struct err *err)
{
	char host[ADDR_TEXT] = "";
	int given = -1;
	if (r->conf.addresses->listen) {
		if (addr_split(r->conf.addresses->listen, host, sizeof host, &given, err) < 0)
			return -1;
		if (given >= 0)
			port = given;
	} else if (r->conf.addresses->iface) {
		if (addr_of_iface(where, r->conf.addresses->iface, err) < 0)
			return -1;
		addr_set_port(where, port);
		return 0;
	} else if (fallback) {
		snprintf(host, sizeof host, "%s", fallback);
	}
	return addr_resolve(where, host, port, true, err);
}

/* The address that the other ranks get: --advertise, else @where; if that is any address,
 * @local. */
static int advertised(const struct rendezvous *r, const struct addr *where, const char *local,
                      char *text, size_t cap, struct err *err)
{
	char host[ADDR_TEXT], own[ADDR_TEXT];
	int port = -1;
	if (!r->conf.addresses->advertise && addr_is_any(where) && local[0]) {
		addr_join(local, addr_port(where), text, cap);
		return 0;
	}
	if (!r->conf.addresses->advertise) {
		snprintf(text, cap, "%s", addr_text(where, true, own));
		return 0;
	}
	if (addr_split(r->conf.addresses->advertise, host, sizeof host, &port, err) < 0)
		return -1;
	addr_join(host, port < 0 ? addr_port(where) : port, text, cap);
	return 0;
}

/* Does the record say that the invitation is over? Set why: ERR_RENDEZVOUS. */
static bool is_over(const struct record *rec, struct err *err)
{
	if (strcmp(rec->addr, RECORD_USED) == 0)
		err_set(err, ERR_RENDEZVOUS,
		        "the ticket has been used: all ranks of its job have joined; 'collctl "
		        "invite' makes a new one");
	else if (strcmp(rec->addr, RECORD_EXPIRED) == 0)
		err_set(err, ERR_RENDEZVOUS,
		        "the ticket has expired, by the inviter's clock; 'collctl invite' makes a "
		        "new one");
	else if (strcmp(rec->addr, RECORD_ENDED) == 0)
		err_set(err, ERR_RENDEZVOUS,
		        "the job of the ticket has ended; 'collctl invite' makes a new one");
	else
		return false;
	return true;
}

/* The writer of a record chose its address text: if it does not resolve, that is noted as trouble
 * and is no error. */
static bool resolve_record(struct rendezvous *r, const struct record *rec, struct addr *where)
{
	struct err why = ERR_INIT;
	char host[ADDR_TEXT];
	int port;
	if (addr_split(rec->addr, host, sizeof host, &port, &why) == 0 && host[0] && port > 0 &&
	    addr_resolve(where, host, port, false, &why) == 0)
		return true;
	snprintf(r->trouble, sizeof r->trouble,
	         "the record %s gives rank 0's address as '%.100s'%s%.100s", r->key, rec->addr,
	         why.code ? ": " : "", why.code ? why.text : "");
	return false;
}

/* 1: the value is a record of this job; 0: it is not, and r->trouble says why; -1: out of
 * memory. */
static int read_record(struct rendezvous *r, const struct store_value *value, struct record *rec,
                       struct err *err)
{
	if (!value->index)
		return 0;
	const int mine = record_decode(&r->of, value->data, value->len, rec, r->trouble,
	                               sizeof r->trouble, err);
	if (mine == 0 && !r->told && r->conf.tell)
		r->conf.tell(r->conf.ctx, r->trouble);
	r->told |= mine == 0;
	return mine;
}

/* Only tries at a record's own address count for or against it. */
static void note_record(struct rendezvous *r, uint64_t index)
{
	if (index != r->index)
		r->suspect = (struct suspect){0};
	r->index = index;
}

void rendezvous_met(struct rendezvous *r, enum met met)
{
	suspect_meet(&r->suspect, met, clock_ns());
}

/* Replace the value at @index (0: no value) by our record. 1: done; 0: another writer was faster;
 * -1: error. */
static int put_record(struct rendezvous *r, struct record *rec, uint64_t index, int64_t deadline,
                      struct err *err)
{
	struct keeper *k = &r->keeper;
	struct store_value value = {0};
	char *text = record_encode(&r->of, rec, err);
	if (!text)
		return -1;
	size_t len = strlen(text);
	int put = store_put(r->store, r->key, text, len, index, deadline, err);
	if (put == 0)
		snprintf(r->trouble, sizeof r->trouble,
		         "the store %s rejects PUT %s?cas=%llu with the index that it returned, so "
		         "it cannot hold the record",
		         r->conf.store.url, r->key, (unsigned long long)index);
	if (put != 1 || store_get(r->store, r->key, 0, &value, &r->wait_index, deadline, err) < 0) {
		free(text);
		return put < 0 || put == 1 ? -1 : 0;
	}
	/* Only if the record is still ours: another writer may have replaced it, or the store may
	 * have lost it. In that case the keeper queries at once. */
	bool ours = value.index && value.len == len && memcmp(value.data, text, len) == 0;
	free(value.data);
	*k = (struct keeper){.store = r->store,
	                     .key = r->key,
	                     .value = text,
	                     .index = ours ? value.index : 0,
	                     .first = ours ? value.index : 0,
	                     .wait_index = ours ? r->wait_index : 0};
	return 1;
}

/* What comes of one try to publish in the store. */
enum attempt {
	ATTEMPT_FAILED,  /* *err says why */
	ATTEMPT_DONE,    /* *fd listens at *where */
	ATTEMPT_TAKEN,   /* by a coordinator of this job, which is at *where */
	ATTEMPT_FOREIGN, /* the value is no record of this job: wait until it changes */
	ATTEMPT_CHANGED, /* the value has changed: look again */
};

/* Listen, and replace the value at @index by the record @rec with this address. */
static enum attempt listen_and_put(struct rendezvous *r, struct record *rec, uint64_t index,
                                   struct addr *where, int *fd, int64_t deadline, struct err *err)
{
	char local[ADDR_TEXT] = "";
	int put = -1;
	store_local_address(r->store, local, sizeof local);
	if (listen_addr(r, local[0] ? local : NULL, 0, where, err) < 0)
		return ATTEMPT_FAILED;
	int listener = addr_listen(where, r->conf.addresses->port_lo, r->conf.addresses->port_hi,
	                           512, err);
	if (listener < 0)
		return ATTEMPT_FAILED;
	if (advertised(r, where, local, rec->addr, sizeof rec->addr, err) == 0)
		put = put_record(r, rec, index, deadline, err);
	if (put == 1) {
		*fd = listener;
		return ATTEMPT_DONE;
	}
	close(listener);
	return put == 0 ? ATTEMPT_CHANGED : ATTEMPT_FAILED;
}

static enum attempt publish_in_store(struct rendezvous *r, struct addr *where, int *fd,
                                     int64_t deadline, struct err *err)
{
	struct store_value value = {0};
	struct record rec;
	if (store_get(r->store, r->key, 0, &value, &r->wait_index, deadline, err) < 0)
		return ATTEMPT_FAILED;
	bool same = value.index == r->index;
	if (!same) /* the value that was in the way has changed */
		r->trouble[0] = '\0';
	int mine = read_record(r, &value, &rec, err);
	free(value.data);
	if (mine < 0 || (mine && is_over(&rec, err)))
		return ATTEMPT_FAILED;
	note_record(r, value.index);
	if (value.index && !mine)
		return ATTEMPT_FOREIGN;
	if (value.index && !suspect_is_stale(&r->suspect, clock_ns())) {
		if (resolve_record(r, &rec, where))
			return ATTEMPT_TAKEN;
		if (!same) /* its address does not resolve: stale if it does not change */
			return ATTEMPT_CHANGED;
	}
	return listen_and_put(r, &rec, value.index, where, fd, deadline, err);
}

/* A request has failed. Did the deadline end it after the store had answered? The answer is more
 * useful: the failure from @err is appended to it. */
static bool ended_late(struct rendezvous *r, int64_t deadline, struct err *err)
{
	size_t len = strlen(r->trouble);
	if (err->code != ERR_RENDEZVOUS || clock_ns() < deadline || !len)
		return false;
	snprintf(r->trouble + len, sizeof r->trouble - len, "; then %s", err->text);
	err_clear(err);
	return true;
}

/* Wait, at most until @deadline, for a change of the value that was read last. */
static int await_change(struct rendezvous *r, int64_t deadline, struct err *err)
{
	struct store_value value = {0};
	int64_t until = clock_ns() + STORE_WAIT;
	if (store_get(r->store, r->key, r->wait_index, &value, &r->wait_index,
	              until < deadline ? until : deadline, err) < 0 &&
	    !ended_late(r, deadline, err))
		return -1;
	free(value.data);
	return 0;
}

/* Publish in the store as soon as the key is free. */
static enum published publish_before(struct rendezvous *r, struct addr *where, int *fd,
                                     int64_t deadline, struct err *err)
{
	for (;;) {
		const enum attempt attempt = publish_in_store(r, where, fd, deadline, err);
		if (attempt == ATTEMPT_DONE)
			return PUBLISH_DONE;
		if (attempt == ATTEMPT_TAKEN)
			return PUBLISH_TAKEN;
		if (attempt == ATTEMPT_FAILED && !ended_late(r, deadline, err))
			return PUBLISH_FAILED;
		if (clock_ns() >= deadline) {
			err_set(err, ERR_RENDEZVOUS, "%s", r->trouble);
			return PUBLISH_FAILED;
		}
		if (attempt != ATTEMPT_CHANGED && await_change(r, deadline, err) < 0)
			return PUBLISH_FAILED;
	}
}

/* The socket that run has opened. */
static enum published use_listener(struct rendezvous *r, struct addr *where, int *fd,
                                   struct err *err)
{
	where->len = sizeof where->sa;
	if (getsockname(r->conf.listen_fd, (struct sockaddr *)&where->sa, &where->len) < 0) {
		err_errno(err, ERR_RENDEZVOUS, "the listening socket given by run");
		return PUBLISH_FAILED;
	}
	(void)fcntl(r->conf.listen_fd, F_SETFL, O_NONBLOCK);
	*fd = r->conf.listen_fd;
	return PUBLISH_DONE;
}

/* Without a store the hostfile, or run, gives the address. */
static enum published listen_at_host(struct rendezvous *r, struct addr *where, int *fd,
                                     struct err *err)
{
	if (listen_addr(r, NULL, r->port, where, err) < 0)
		return PUBLISH_FAILED;
	*fd = addr_listen(where, 0, 0, 512, err);
	if (*fd >= 0)
		return PUBLISH_DONE;
	if (errno != EADDRINUSE)
		return PUBLISH_FAILED;
	snprintf(r->trouble, sizeof r->trouble, "%.300s", err->text);
	err_clear(err);
	return addr_resolve(where, r->host, r->port, false, err) < 0 ? PUBLISH_FAILED
	                                                             : PUBLISH_TAKEN;
}

enum published rendezvous_publish(struct rendezvous *r, struct addr *where, int *fd,
                                  int64_t deadline, struct err *err)
{
	*fd = -1;
	if (r->conf.listen_fd >= 0)
		return use_listener(r, where, fd, err);
	if (!r->store)
		return listen_at_host(r, where, fd, err);
	return publish_before(r, where, fd, deadline, err);
}

void rendezvous_settle(struct rendezvous *r)
{
	if (r->keeper.value)
		return;
	store_close(r->store);
	r->store = NULL;
}

void rendezvous_keep(struct rendezvous *r)
{
	if (r->store)
		store_tell(r->store, NULL, NULL); /* the keeper's thread calls it from now on */
	keeper_start(&r->keeper);
}

int rendezvous_confirm(struct rendezvous *r, int64_t deadline, struct err *err)
{
	const int ours = r->keeper.value ? keeper_confirm(&r->keeper, deadline, err) : 1;
	if (ours == 0)
		err_set(err, ERR_RENDEZVOUS,
		        "the record %s in %.200s was replaced or removed since this rank 0 put it: "
		        "another rank 0 may have begun a round of this job",
		        r->key, r->conf.store.url);
	return ours == 1 ? 0 : -1;
}

int rendezvous_withdraw(struct rendezvous *r, int64_t deadline, struct err *err)
{
	return keeper_withdraw(&r->keeper, deadline, err);
}

/* ---- the other ranks ---- */

/* The name of a host that starts later may not resolve yet, such as that of a pod of Kubernetes. */
static int resolve_host(struct rendezvous *r, struct addr *where, struct err *err)
{
	r->trouble[0] = '\0';
	if (addr_resolve(where, r->host, r->port, false, err) == 0)
		return 1;
	if (err->code != ERR_RENDEZVOUS)
		return -1;
	snprintf(r->trouble, sizeof r->trouble, "%.300s", err->text);
	err_clear(err);
	return 0;
}

int rendezvous_locate(struct rendezvous *r, struct addr *where, int64_t until, struct err *err)
{
	struct store_value value = {0};
	struct record rec;
	if (!r->store)
		return resolve_host(r, where, err);
	if (store_get(r->store, r->key, r->wait_index, &value, &r->wait_index, until, err) < 0) {
		r->wait_index = 0;
		return -1;
	}
	/* That a record belonged to another job is more useful than that it has been withdrawn
	 * since. */
	if (!value.index && !r->strange)
		snprintf(r->trouble, sizeof r->trouble, "no record %s in the store %s", r->key,
		         r->conf.store.url);
	int ok = read_record(r, &value, &rec, err);
	if (value.index)
		r->strange = !ok;
	free(value.data);
	if (ok <= 0)
		return ok;
	if (is_over(&rec, err))
		return -1;
	note_record(r, value.index);
	return resolve_record(r, &rec, where);
}

const char *rendezvous_source(const struct rendezvous *r, char *text, size_t cap)
{
	if (r->store)
		snprintf(text, cap, "record %s in %.200s", r->key, r->conf.store.url);
	else if (r->conf.hosts)
		snprintf(text, cap, "%.200s, the first host of the hostfile",
		         r->conf.hosts->hosts[0].name);
	else
		snprintf(text, cap, "given by run");
	return text;
}
