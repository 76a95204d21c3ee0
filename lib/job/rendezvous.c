#include "lib/job/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/private.h"
#include "lib/job/keeper.h"
#include "lib/job/store.h"
#include "lib/net/crypto.h"

#define NONCE_TEXT 33
#define MAC_TEXT   65
#define STORE_WAIT (30 * NS_PER_SEC) /* of one blocking query */

struct record {
	char addr[ADDR_TEXT];
	char nonce[NONCE_TEXT];
	char mac[MAC_TEXT]; /* "": --insecure */
};

struct rendezvous {
	struct rendezvous_conf conf;
	struct store *store;
	char key[96];
	uint64_t index; /* ModifyIndex of the record seen last; 0: none */
	uint64_t wait_index;
	struct suspect suspect; /* of the record at @index */
	struct keeper keeper;   /* of our own record */
	struct addr host;       /* of a hostfile or of run */
	char trouble[400];
	bool strange; /* the last record was not one of this job: what trouble says */
};

static void hex(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", p[i]);
}

static int record_mac(const struct rendezvous *r, const struct record *rec, char mac[MAC_TEXT],
                      struct err *err)
{
	uint8_t key[32], sum[32];
	char text[ADDR_TEXT + NONCE_TEXT + 160];
	int n = snprintf(text, sizeof text, "record|1|%s|%s|%s", r->conf.job, rec->addr,
	                 rec->nonce);
	int ret =
	        secret_derive(r->conf.secret->key, SECRET_BYTES, "record", 6, key, sizeof key, err);
	if (ret == 0)
		ret = secret_mac(key, sizeof key, text, (size_t)n, sum, err);
	wipe(key, sizeof key);
	if (ret == 0)
		hex(sum, sizeof sum, mac);
	return ret;
}

static char *record_encode(const struct rendezvous *r, struct record *rec, struct err *err)
{
	uint8_t nonce[16];
	if (crypto_random(nonce, sizeof nonce, err) < 0)
		return NULL;
	hex(nonce, sizeof nonce, rec->nonce);
	rec->mac[0] = '\0';
	if (r->conf.secret && record_mac(r, rec, rec->mac, err) < 0)
		return NULL;
	json_t *j = json_pack("{s:i,s:s,s:s}", "v", 1, "addr", rec->addr, "nonce", rec->nonce);
	if (j && rec->mac[0])
		json_object_set_new(j, "mac", json_string(rec->mac));
	char *text = j ? json_text(j, JSON_COMPACT) : NULL;
	json_decref(j);
	if (!text)
		err_nomem(err, "the record", 256);
	return text;
}

/* A stranger may have written it: every field is checked, and nothing used before the MAC. 1: it is
 * a record; 0: r->trouble says why not; -1: out of memory. */
static int record_decode(struct rendezvous *r, const char *text, size_t len, struct record *rec,
                         struct err *lacking)
{
	json_forget_memory();
	json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *addr = "", *nonce = "", *mac = "";
	int v = 0;
	char want[MAC_TEXT];
	struct err err = {0};
	bool ok = j &&
	          json_unpack(j, "{s:i,s:s,s:s,s?s}", "v", &v, "addr", &addr, "nonce", &nonce,
	                      "mac", &mac) == 0 &&
	          strlen(addr) < sizeof rec->addr && strlen(nonce) < sizeof rec->nonce &&
	          strlen(mac) < sizeof rec->mac;
	if (ok) {
		strcpy(rec->addr, addr);
		strcpy(rec->nonce, nonce);
		strcpy(rec->mac, mac);
	}
	json_decref(j);
	if (json_lacked_memory())
		return err_nomem(lacking, "the record in the store", len);
	if (!ok || v != 1) {
		snprintf(r->trouble, sizeof r->trouble,
		         "the value of %s is not a record of collctl's", r->key);
		return 0;
	}
	if (!r->conf.secret) {
		if (!rec->mac[0])
			return 1;
		snprintf(r->trouble, sizeof r->trouble,
		         "the record %s is rank 0's with TLS: this rank has --insecure, rank 0 has "
		         "not",
		         r->key);
		return 0;
	}
	if (rec->mac[0] && record_mac(r, rec, want, &err) == 0 &&
	    CRYPTO_memcmp(want, rec->mac, MAC_TEXT - 1) == 0)
		return 1;
	if (err.code == ERR_RESOURCE)
		return err_set(lacking, err.code, "%s", err.text);
	snprintf(r->trouble, sizeof r->trouble,
	         rec->mac[0] ? "a record exists whose MAC does not verify (%s): it was tampered "
	                       "with, or the secrets differ"
	                     : "a record exists without a MAC (%s): rank 0 has --insecure, this "
	                       "rank has not",
	         r->key);
	return 0;
}

struct rendezvous *rendezvous_new(const struct rendezvous_conf *conf, struct err *err)
{
	struct rendezvous *r = calloc(1, sizeof *r);
	if (!r) {
		err_nomem(err, "the rendezvous", sizeof *r);
		return NULL;
	}
	r->conf = *conf;
	snprintf(r->key, sizeof r->key, "collctl/%.64s", conf->job);
	if (conf->url) {
		r->store = store_open(conf->url, conf->token, err);
		if (!r->store)
			goto fail;
		store_interrupt(r->store, conf->interrupted, conf->ctx);
	} else if (conf->hosts) {
		const struct hostfile_host *h = &conf->hosts->hosts[0];
		if (addr_resolve(&r->host, h->name, h->port ? h->port : HOSTFILE_PORT, false, err))
			goto fail;
	} else if (conf->coordinator) {
		char host[ADDR_TEXT];
		int port;
		if (addr_split(conf->coordinator, host, sizeof host, &port, err) < 0 ||
		    addr_resolve(&r->host, host, port, false, err) < 0)
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

/* Where to listen: --listen, else the given interface, else @fallback. */
static int listen_addr(const struct rendezvous *r, const char *fallback, int port,
                       struct addr *where, struct err *err)
{
	char host[ADDR_TEXT] = "";
	int given = -1;
	if (r->conf.listen) {
		if (addr_split(r->conf.listen, host, sizeof host, &given, err) < 0)
			return -1;
		if (given >= 0)
			port = given;
	} else if (r->conf.iface) {
		if (addr_of_iface(where, r->conf.iface, err) < 0)
			return -1;
		addr_set_port(where, port);
		return 0;
	} else if (fallback) {
		snprintf(host, sizeof host, "%s", fallback);
	}
	return addr_resolve(where, host, port, true, err);
}

/* What the others are told: --advertise, else @where; where that is any address, @local. */
static int advertised(const struct rendezvous *r, const struct addr *where, const char *local,
                      char *text, size_t cap, struct err *err)
{
	char host[ADDR_TEXT], own[ADDR_TEXT];
	int port = -1;
	if (!r->conf.advertise && addr_is_any(where) && local[0]) {
		snprintf(text, cap, strchr(local, ':') ? "[%s]:%d" : "%s:%d", local,
		         addr_port(where));
		return 0;
	}
	if (!r->conf.advertise) {
		snprintf(text, cap, "%s", addr_text(where, true, own));
		return 0;
	}
	if (addr_split(r->conf.advertise, host, sizeof host, &port, err) < 0)
		return -1;
	if (port < 0)
		port = addr_port(where);
	snprintf(text, cap, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
	return 0;
}

/* The address in a record is its writer's text: one that does not resolve is trouble, no error. */
static bool resolve_record(struct rendezvous *r, const struct record *rec, struct addr *where)
{
	struct err why = {.rank = ERR_RANK_SELF};
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

/* A record is judged by what was met at its own address. */
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

/* Put our record in the place of what has @index (0: of nothing). 1: done; 0: somebody was first;
 * -1: error. */
static int put_record(struct rendezvous *r, struct record *rec, uint64_t index, int64_t deadline,
                      struct err *err)
{
	struct keeper *k = &r->keeper;
	struct store_value value = {0};
	char *text = record_encode(r, rec, err);
	if (!text)
		return -1;
	size_t len = strlen(text);
	int put = store_put(r->store, r->key, text, len, index, deadline, err);
	if (put == 0)
		snprintf(
		        r->trouble, sizeof r->trouble,
		        "the store %s answers false to PUT %s?cas=%llu: it gave that index itself, "
		        "and takes no record",
		        r->conf.url, r->key, (unsigned long long)index);
	if (put != 1 || store_get(r->store, r->key, 0, &value, &r->wait_index, deadline, err) < 0) {
		free(text);
		return put < 0 || put == 1 ? -1 : 0;
	}
	/* Only if it is still ours: somebody may have replaced it since. */
	bool ours = value.index && value.len == len && memcmp(value.data, text, len) == 0;
	free(value.data);
	*k = (struct keeper){.store = r->store,
	                     .key = r->key,
	                     .value = text,
	                     .index = ours ? value.index : 0,
	                     .wait_index = r->wait_index};
	return 1;
}

static int publish_in_store(struct rendezvous *r, struct addr *where, int64_t deadline,
                            struct err *err)
{
	struct store_value value = {0};
	struct record rec;
	char local[ADDR_TEXT] = "";
	if (store_get(r->store, r->key, 0, &value, &r->wait_index, deadline, err) < 0)
		return -1;
	bool same = value.index == r->index;
	if (!same) /* what was in the way has changed */
		r->trouble[0] = '\0';
	int mine = value.index ? record_decode(r, value.data, value.len, &rec, err) : 0;
	free(value.data);
	if (mine < 0)
		return -1;
	note_record(r, value.index);
	if (value.index && !mine)
		return -3; /* not ours to judge: wait for it to go */
	if (value.index && !suspect_is_stale(&r->suspect, clock_ns())) {
		if (resolve_record(r, &rec, where))
			return -2;
		if (!same) /* nobody can be asked there: stale, if it stays as it is */
			return -4;
	}
	store_local_address(r->store, local, sizeof local);
	if (listen_addr(r, local[0] ? local : NULL, 0, where, err) < 0)
		return -1;
	int fd = addr_listen(where, r->conf.port_lo, r->conf.port_hi, 512, err);
	if (fd < 0)
		return -1;
	int put = -1;
	if (advertised(r, where, local, rec.addr, sizeof rec.addr, err) == 0)
		put = put_record(r, &rec, value.index, deadline, err);
	if (put == 1)
		return fd;
	close(fd);
	return put == 0 ? -4 : -1; /* somebody was first: look again */
}

int rendezvous_publish(struct rendezvous *r, struct addr *where, int64_t deadline, struct err *err)
{
	if (r->conf.listen_fd >= 0) {
		where->len = sizeof where->sa;
		if (getsockname(r->conf.listen_fd, (struct sockaddr *)&where->sa, &where->len) < 0)
			return err_errno(err, ERR_RENDEZVOUS, "the listening socket given by run");
		(void)fcntl(r->conf.listen_fd, F_SETFL, O_NONBLOCK);
		return r->conf.listen_fd;
	}
	if (!r->store) {
		if (listen_addr(r, NULL, addr_port(&r->host), where, err) < 0)
			return -1;
		int fd = addr_listen(where, 0, 0, 512, err);
		if (fd >= 0 || errno != EADDRINUSE)
			return fd;
		snprintf(r->trouble, sizeof r->trouble, "%.300s", err->text);
		err_clear(err);
		*where = r->host;
		return -2;
	}
	for (;;) {
		int fd = publish_in_store(r, where, deadline, err);
		if (fd >= -2)
			return fd;
		if (clock_ns() >= deadline)
			return err_set(err, ERR_RENDEZVOUS, "%s", r->trouble);
		if (fd == -4)
			continue;
		struct store_value value = {0};
		int64_t until = clock_ns() + STORE_WAIT;
		if (store_get(r->store, r->key, r->wait_index, &value, &r->wait_index,
		              until < deadline ? until : deadline, err) < 0) {
			if (err->code != ERR_RENDEZVOUS || clock_ns() < deadline)
				return -1;
			err_clear(err); /* what it waits for tells more than the end of the wait */
		}
		free(value.data);
	}
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
	keeper_start(&r->keeper);
}

int rendezvous_withdraw(struct rendezvous *r, int64_t deadline, struct err *err)
{
	return keeper_withdraw(&r->keeper, deadline, err);
}

/* ---- the others ---- */

int rendezvous_locate(struct rendezvous *r, struct addr *where, int64_t until, struct err *err)
{
	struct store_value value = {0};
	struct record rec;
	if (!r->store) {
		*where = r->host;
		return 1;
	}
	if (store_get(r->store, r->key, r->wait_index, &value, &r->wait_index, until, err) < 0) {
		r->wait_index = 0;
		return -1;
	}
	/* A record that is not this job's tells more than that it has been withdrawn since. */
	if (!value.index && !r->strange)
		snprintf(r->trouble, sizeof r->trouble, "no record %s in the store %s", r->key,
		         r->conf.url);
	int ok = value.index ? record_decode(r, value.data, value.len, &rec, err) : 0;
	if (value.index)
		r->strange = !ok;
	free(value.data);
	if (ok <= 0)
		return ok;
	note_record(r, value.index);
	return resolve_record(r, &rec, where);
}

const char *rendezvous_source(const struct rendezvous *r, char *text, size_t cap)
{
	if (r->store)
		snprintf(text, cap, "record %s in %.200s", r->key, r->conf.url);
	else if (r->conf.hosts)
		snprintf(text, cap, "%.200s, the first host of the hostfile",
		         r->conf.hosts->hosts[0].name);
	else
		snprintf(text, cap, "given by run");
	return text;
}
