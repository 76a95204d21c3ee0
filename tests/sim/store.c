/*
 * The store: a libcurl of our own, which the product loads as it would the other, and behind it
 * the Consul KV requests that the product makes, on lib/store/server/kv.c.
 */
#include "tests/sim/sim.h"
#include "tests/sim/wrap.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <openssl/evp.h>

#include "lib/store/server/kv.h"

struct store_conf store_faults;
uint64_t store_puts;

enum command { GET, PUT, DELETE };

/* A request under way; it outlives its handle. */
struct exchange {
	struct easy *easy; /* NULL: nobody waits for the answer any more */
	int host;
	enum command command;
	char key[256];
	bool has_cas;
	uint64_t cas, index;
	int64_t wait_until; /* of a blocking query */
	void *data;
	size_t len;
	bool lost, breaks; /* its answer does not come; its connection breaks before */
	long status;
	CURLcode code;
	uint64_t answer_index;
	char *body;
	size_t body_len;
	struct exchange *next_waiting;
};

struct easy {
	char url[4096], method[16];
	const void *data;
	size_t len;
	long timeout_ms;
	curl_write_callback body, header;
	void *body_arg, *header_arg;
	char *why, local[64];
	struct multi *multi;
	struct exchange *exchange;
	bool done, told;
	CURLcode code;
	long status;
};

struct multi {
	struct easy *easy;
	struct task *waiter;
	bool woken;
	CURLMsg msg;
};

/* ---- the server ---- */

static struct kv kv;
static bool open;
static struct exchange *waiting;
static char *old_values[8]; /* what a store that lies may answer */
static int nold;

static void on_changed(void *arg, const char *key);

void store_begin(void)
{
	store_end();
	memset(&store_faults, 0, sizeof store_faults);
	kv_init(&kv, 0, on_changed, NULL);
	kv.index = 10 + rng_below(&net_rng, 1000);
	open = true;
	waiting = NULL;
	nold = 0;
	store_puts = 0;
}

void store_end(void)
{
	if (open)
		kv_release(&kv);
	open = false;
}

void store_plant(const char *key, const char *value)
{
	kv_put(&kv, key, value, strlen(value), NULL, now);
}

static bool faulty(unsigned per_mille)
{
	bool strikes = now < store_faults.heals && rng_chance(&net_rng, per_mille);
	store_faults.struck |= strikes;
	return strikes;
}

static void deliver(void *a, uint64_t b);

static void answer(struct exchange *x, long status, CURLcode code)
{
	note("store answers", status, x->breaks ? 1000 : (int64_t)code);
	x->status = status;
	x->code = x->breaks ? CURLE_RECV_ERROR : code;
	if (!x->lost)
		link_send(STORE_HOST, x->host, deliver, x, 0);
}

static void answer_entry(struct exchange *x, const void *data, size_t len, uint64_t modify)
{
	size_t cap = len * 2 + 512;
	char *text = world_alloc(cap), *coded = world_alloc(len * 2 + 8);
	EVP_EncodeBlock((unsigned char *)coded, data, (int)len);
	x->body_len = (size_t)snprintf(text, cap,
	                               "[{\"Key\":\"%s\",\"Value\":\"%s\",\"ModifyIndex\":%llu}]",
	                               x->key, coded, (unsigned long long)modify);
	x->body = text;
	answer(x, 200, CURLE_OK);
}

static void answer_get(struct exchange *x)
{
	const struct kv_entry *e = kv_find(&kv, x->key);
	x->answer_index = e ? e->modify : kv.index;
	if (nold && faulty(store_faults.lies)) {
		const char *old = old_values[rng_below(&net_rng, (uint64_t)nold)];
		answer_entry(x, old, strlen(old), e ? e->modify : kv.index);
	} else if (faulty(store_faults.lies)) {
		x->body = (char *)"[{\"Key\":1}]";
		x->body_len = rng_below(&net_rng, 12);
		answer(x, 200, CURLE_OK);
	} else if (e) {
		answer_entry(x, e->data, e->len, e->modify);
	} else {
		answer(x, 404, CURLE_OK);
	}
}

static void answer_bool(struct exchange *x, bool value)
{
	if (faulty(store_faults.lies))
		value = !value;
	x->body = (char *)(value ? "true" : "false");
	x->body_len = strlen(x->body);
	answer(x, 200, CURLE_OK);
}

static void stop_waiting(struct exchange *x)
{
	for (struct exchange **p = &waiting; *p; p = &(*p)->next_waiting)
		if (*p == x) {
			*p = x->next_waiting;
			answer_get(x);
			return;
		}
}

static void on_changed(void *arg, const char *key)
{
	(void)arg;
	for (struct exchange *x = waiting, *next; x; x = next) {
		next = x->next_waiting;
		if (strcmp(x->key, key) == 0)
			stop_waiting(x);
	}
}

static void waited(void *a, uint64_t b)
{
	(void)b;
	stop_waiting(a);
}

static void remember(const void *data, size_t len)
{
	if (nold == 8)
		return;
	char *text = world_alloc(len + 1);
	memcpy(text, data, len);
	old_values[nold++] = text;
}

static void begin_anew(void)
{
	/* Its records were deleted, or it was restarted. */
	uint64_t index = rng_below(&net_rng, 2) ? 1 : kv.index + 1;
	kv_release(&kv);
	kv_init(&kv, 0, on_changed, NULL);
	kv.index = index;
	for (struct exchange *x = waiting; x; x = x->next_waiting)
		answer(x, 0, CURLE_RECV_ERROR);
	waiting = NULL;
	note("store forgets", (int64_t)index, 0);
}

static void put_or_delete(struct exchange *x)
{
	const uint64_t *cas = x->has_cas ? &x->cas : NULL;
	enum kv_result result;
	bool gone;
	if (x->command == PUT)
		result = kv_put(&kv, x->key, x->data, x->len, cas, now);
	else
		result = kv_delete(&kv, x->key, cas, &gone);
	note("store changed", x->command, result);
	if (x->command == PUT && result == KV_TRUE) {
		store_puts++;
		remember(x->data, x->len);
	}
	answer_bool(x, result == KV_TRUE);
	if (x->command == PUT && faulty(store_faults.forgets_puts))
		begin_anew();
}

static void serve(void *a, uint64_t b)
{
	struct exchange *x = a;
	(void)b;
	note("store asked", x->command, (int64_t)x->index);
	if (faulty(store_faults.forgets))
		begin_anew();
	if (faulty(store_faults.errors)) {
		answer(x, rng_below(&net_rng, 2) ? 500 : 503, CURLE_OK);
		return;
	}
	x->breaks = faulty(store_faults.breaks);
	x->lost = faulty(store_faults.loses);
	const struct kv_entry *e = kv_find(&kv, x->key);
	uint64_t index = e ? e->modify : kv.index;
	bool unchanged = x->index && index <= x->index && x->index <= kv.index;
	if (x->command != GET) {
		put_or_delete(x);
	} else if (unchanged) {
		x->next_waiting = waiting;
		waiting = x;
		at(x->wait_until + now, waited, x, 0);
	} else {
		answer_get(x);
	}
}

static void reaches_store(void *a, uint64_t b)
{
	struct exchange *x = a;
	(void)b;
	if (faulty(store_faults.drops))
		return;
	if (faulty(store_faults.refuses)) {
		answer(x, 0, CURLE_COULDNT_CONNECT);
		return;
	}
	store_faults.struck |= store_faults.slow > 0;
	at(now + rng_range(&net_rng, 10 * US, 50 * US + store_faults.slow), serve, x, 0);
}

/* ---- the client ---- */

static void finish(struct easy *e, CURLcode code)
{
	e->done = true;
	e->code = code;
	if (e->multi && e->multi->waiter)
		task_wake(e->multi->waiter);
}

static void deliver(void *a, uint64_t b)
{
	struct exchange *x = a;
	(void)b;
	if (!x->easy)
		return;
	x->easy->status = x->status;
	finish(x->easy, x->code);
}

static void timed_out(void *a, uint64_t b)
{
	struct exchange *x = a;
	(void)b;
	if (x->easy && !x->easy->done)
		finish(x->easy, CURLE_OPERATION_TIMEDOUT);
}

static CURLcode global_init_mem(long flags, curl_malloc_callback m, curl_free_callback f,
                                curl_realloc_callback r, curl_strdup_callback s,
                                curl_calloc_callback c)
{
	(void)flags, (void)m, (void)f, (void)r, (void)s, (void)c;
	return CURLE_OK;
}

/* Handles are the world's: those of a process that is killed go with it. */
static CURL *easy_init(void)
{
	return world_alloc(sizeof(struct easy));
}

static void easy_cleanup(CURL *handle)
{
	struct easy *e = handle;
	if (e->exchange)
		e->exchange->easy = NULL;
	e->exchange = NULL;
}

static CURLcode easy_setopt(CURL *handle, CURLoption option, ...)
{
	struct easy *e = handle;
	va_list ap;
	va_start(ap, option);
	switch ((int)option) {
	case CURLOPT_URL:
		snprintf(e->url, sizeof e->url, "%s", va_arg(ap, const char *));
		break;
	case CURLOPT_CUSTOMREQUEST:
		snprintf(e->method, sizeof e->method, "%s", va_arg(ap, const char *));
		break;
	case CURLOPT_POSTFIELDS:
		e->data = va_arg(ap, const void *);
		break;
	case CURLOPT_POSTFIELDSIZE_LARGE:
		e->len = (size_t)va_arg(ap, curl_off_t);
		break;
	case CURLOPT_TIMEOUT_MS:
		e->timeout_ms = va_arg(ap, long);
		break;
	case CURLOPT_WRITEFUNCTION:
		e->body = va_arg(ap, curl_write_callback);
		break;
	case CURLOPT_WRITEDATA:
		e->body_arg = va_arg(ap, void *);
		break;
	case CURLOPT_HEADERFUNCTION:
		e->header = va_arg(ap, curl_write_callback);
		break;
	case CURLOPT_HEADERDATA:
		e->header_arg = va_arg(ap, void *);
		break;
	case CURLOPT_ERRORBUFFER:
		e->why = va_arg(ap, char *);
		break;
	default:
		break;
	}
	va_end(ap);
	return CURLE_OK;
}

static CURLcode easy_getinfo(CURL *handle, CURLINFO info, ...)
{
	struct easy *e = handle;
	va_list ap;
	va_start(ap, info);
	if (info == CURLINFO_RESPONSE_CODE)
		*va_arg(ap, long *) = e->status;
	else if (info == CURLINFO_LOCAL_IP)
		*va_arg(ap, char **) = e->local;
	va_end(ap);
	return CURLE_OK;
}

static const char *easy_strerror(CURLcode code)
{
	return code == CURLE_COULDNT_CONNECT ? "Couldn't connect to server" : "Timeout was reached";
}

static CURLM *multi_init(void)
{
	return world_alloc(sizeof(struct multi));
}

static CURLMcode multi_cleanup(CURLM *handle)
{
	(void)handle;
	return CURLM_OK;
}

static uint64_t number_in(const char *url, const char *name)
{
	const char *p = strstr(url, name);
	return p ? strtoull(p + strlen(name), NULL, 10) : 0;
}

static CURLMcode multi_add_handle(CURLM *handle, CURL *easy)
{
	struct multi *m = handle;
	struct easy *e = easy;
	struct exchange *x = world_alloc(sizeof *x);
	const char *key = strstr(e->url, "/v1/kv/");
	step();
	m->easy = e;
	e->multi = m;
	e->exchange = x;
	x->easy = e;
	x->host = current->host;
	x->command = !e->method[0] ? GET : strcmp(e->method, "PUT") == 0 ? PUT : DELETE;
	snprintf(x->key, sizeof x->key, "%.*s", (int)strcspn(key + 7, "?"), key + 7);
	x->has_cas = strstr(e->url, "cas=") != NULL;
	x->cas = number_in(e->url, "cas=");
	x->index = number_in(e->url, "index=");
	x->wait_until = (int64_t)number_in(e->url, "wait=") * MS;
	if (e->data) {
		x->data = world_alloc(e->len + 1);
		memcpy(x->data, e->data, e->len);
		x->len = e->len;
	}
	snprintf(e->local, sizeof e->local, "10.0.0.%d", 1 + current->host);
	link_send(current->host, STORE_HOST, reaches_store, x, 0);
	at(now + e->timeout_ms * MS, timed_out, x, 0);
	return CURLM_OK;
}

static CURLMcode multi_remove_handle(CURLM *handle, CURL *easy)
{
	struct multi *m = handle;
	easy_cleanup(easy);
	m->easy = NULL;
	return CURLM_OK;
}

static void hand_over(struct easy *e)
{
	struct exchange *x = e->exchange;
	char line[64] = "HTTP/1.1 200 OK\r\n";
	e->header(line, 1, strlen(line), e->header_arg);
	if (x->answer_index) {
		snprintf(line, sizeof line, "X-Consul-Index: %llu\r\n",
		         (unsigned long long)x->answer_index);
		e->header(line, 1, strlen(line), e->header_arg);
	}
	if (x->body_len)
		e->body(x->body, 1, x->body_len, e->body_arg);
}

static CURLMcode multi_perform(CURLM *handle, int *running)
{
	struct multi *m = handle;
	step();
	*running = m->easy && !m->easy->done;
	if (m->easy && m->easy->done && !m->easy->told && m->easy->code == CURLE_OK) {
		m->easy->told = true;
		hand_over(m->easy);
	}
	return CURLM_OK;
}

static CURLMcode multi_poll(CURLM *handle, struct curl_waitfd fds[], unsigned n, int ms, int *ret)
{
	struct multi *m = handle;
	int64_t until = now + ms * MS;
	(void)fds, (void)n, (void)ret;
	step_and_yield();
	while (!m->woken && now < until && !(m->easy && m->easy->done)) {
		m->waiter = task_current();
		task_wait(until);
		m->waiter = NULL;
	}
	m->woken = false;
	return CURLM_OK;
}

static CURLMcode multi_wakeup(CURLM *handle)
{
	struct multi *m = handle;
	step();
	m->woken = true;
	if (m->waiter)
		task_wake(m->waiter);
	return CURLM_OK;
}

static CURLMsg *multi_info_read(CURLM *handle, int *left)
{
	struct multi *m = handle;
	*left = 0;
	if (!m->easy || !m->easy->done || m->msg.easy_handle == m->easy)
		return NULL;
	m->msg.msg = CURLMSG_DONE;
	m->msg.easy_handle = m->easy;
	m->msg.data.result = m->easy->code;
	return &m->msg;
}

static struct curl_slist *slist_append(struct curl_slist *list, const char *line)
{
	(void)line;
	return list ? list : world_alloc(sizeof *list);
}

static void slist_free_all(struct curl_slist *list)
{
	(void)list;
}

/* ---- loading it ---- */

static int library;

/* One that the product may load, and that no job calls. */
static void no_function(void)
{
	abort();
}

void *__wrap_dlopen(const char *name, int flags)
{
	if (!current)
		return __real_dlopen(name, flags);
	return strcmp(name, "libcurl.so.4") == 0 ? &library : NULL;
}

void *__wrap_dlsym(void *lib, const char *name)
{
	typedef void any_function(void);
	static const struct {
		const char *name;
		any_function *fn;
	} functions[] = {
#define FN(name) {"curl_" #name, (any_function *)name}
	        FN(global_init_mem),     FN(easy_init),       FN(easy_cleanup),
	        FN(easy_setopt),         FN(easy_getinfo),    FN(easy_strerror),
	        FN(multi_init),          FN(multi_cleanup),   FN(multi_add_handle),
	        FN(multi_remove_handle), FN(multi_perform),   FN(multi_poll),
	        FN(multi_wakeup),        FN(multi_info_read), FN(slist_append),
	        FN(slist_free_all),
#undef FN
	};
	any_function *fn = no_function;
	void *p;
	if (!current)
		return __real_dlsym(lib, name);
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
		if (strcmp(name, functions[i].name) == 0)
			fn = functions[i].fn;
	memcpy(&p, &fn, sizeof p);
	return p;
}

int __wrap_dlclose(void *lib)
{
	return current ? 0 : __real_dlclose(lib);
}

char *__wrap_dlerror(void)
{
	return current ? (char *)"not in the simulation" : __real_dlerror();
}
