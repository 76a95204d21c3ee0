#include "lib/coll/member.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/private.h"
#include "lib/coll/request/paths.h"
#include "lib/crypto/certificate.h"
#include "lib/crypto/crypto.h"
#include "lib/net/congestion.h"

#define TOKEN_MAX 1024

/* Variables by which `collctl run` connects its ranks; not for users. */
#define LISTEN_FD   "COLLCTL_LISTEN_FD"
#define COORDINATOR "COLLCTL_COORDINATOR"

#define HOST_IDENTITY "COLLCTL_HOST_ID" /* for users whose containers hide the machine */

static char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

/* The value of a variable that holds a secret, malloced, or NULL. The environment of a program that
 * uses the library stays as it is: later jobs need the variable, too. */
static char *secret_variable(const struct job_settings *s, const char *name, struct err *err)
{
	if (s->ignore_environment)
		return NULL;
	if (!s->embedded)
		return private_variable(name, err);
	const char *value = getenv(name);
	return value && *value ? err_strdup(value, name, err) : NULL;
}

/* Protect the process, which holds a secret. */
static void hide(const struct job_settings *s)
{
	if (!s->embedded)
		private_process(NULL);
}

/* ---- a ticket ---- */

#define REACH_TIME (3 * NS_PER_SEC) /* for the first of its addresses to answer */

/* The ticket's text, malloced; NULL: none is given, or an error. */
static char *ticket_text(const struct job_settings *s, struct err *err)
{
	char line[TICKET_TEXT];
	char *text = secret_variable(s, "COLLCTL_TICKET", err);
	if (err->code || !s->ticket_file)
		return text;
	wipe_free(text);
	const bool from_stdin = strcmp(s->ticket_file, "-") == 0;
	ssize_t n = 0;
	hide(s);
	if (from_stdin && s->ask && isatty(STDIN_FILENO)) {
		n = s->ask("ticket: ", line, sizeof line);
		if (n < 0)
			err_set(err, ERR_USAGE, "--ticket-file -: there is no terminal to ask on");
	} else if (from_stdin) {
		n = read_full(STDIN_FILENO, line, sizeof line - 1);
		line[n > 0 ? n : 0] = '\0';
		if (n < 0)
			err_errno(err, ERR_INPUT, "stdin");
	} else {
		private_line(s->ticket_file, "COLLCTL_TICKET may hold the ticket", line,
		             sizeof line, err);
	}
	text = err->code ? NULL : err_strdup(line, "the ticket", err);
	wipe(line, sizeof line);
	return text;
}

/* What a ticket says may not be said otherwise. */
static int check_alone(const struct job_settings *s, const struct ticket *t, struct err *err)
{
	const char *with = s->rendezvous         ? "--rendezvous"
	                   : s->hostfile         ? "--hostfile"
	                   : s->job              ? "--job"
	                   : s->secret_file      ? "--secret-file"
	                   : s->secret_fd >= 0   ? "--secret-fd"
	                   : s->tls_cert         ? "--tls-cert"
	                   : s->insecure         ? "--insecure"
	                   : s->store_token_file ? "--store-token-file"
	                                         : NULL;
	if (with)
		return err_set(err, ERR_USAGE,
		               "%s: the ticket says where and how the ranks meet: remove one of "
		               "the two",
		               with);
	if (s->size > 0 && s->size != t->size)
		return err_set(err, ERR_USAGE, "--size %d: the ticket is for a job of %d ranks",
		               s->size, t->size);
	return 0;
}

/* What may serve a ticket's store, for a hint. */
static void note_inviter(struct member *m, const struct ticket *t)
{
	const time_t end = (time_t)t->expires;
	char when[64] = "";
	struct tm tm;
	if (clock_wall_ns() / NS_PER_SEC >= end)
		strftime(when, sizeof when, ", whose ticket expired at %F %T by the clock here,",
		         localtime_r(&end, &tm));
	snprintf(m->served_by, sizeof m->served_by, "'collctl invite'%s", when);
	m->conf.served_by = m->served_by;
	m->conf.invited = true;
}

/* If there is a ticket: take the secret and the token from it, and put the rest into the
 * settings. */
static int find_ticket(struct member *m, struct job_settings *s, struct err *err)
{
	char token[TICKET_TOKEN];
	struct ticket t;
	char *text = ticket_text(s, err);
	if (!text)
		return err->code ? -1 : 0;
	hide(s);
	int ret = ticket_decode(&t, text, err);
	wipe_free(text);
	if (ret == 0 && crypto_begin(err) == 0 && check_alone(s, &t, err) == 0 &&
	    ticket_secret(&t, &m->secret, err) == 0 && ticket_token(&t, token, err) == 0) {
		m->conf.secret = &m->secret;
		m->token = err_strdup(token, "the token", err);
		ticket_job(&t, m->ticket_name);
	}
	wipe(token, sizeof token);
	wipe(t.key, sizeof t.key);
	if (!m->token)
		return -1;
	note_inviter(m, &t);
	ticket_reach(&t, REACH_TIME, m->ticket_url, sizeof m->ticket_url);
	s->size = t.size;
	s->rank = s->rank == -1 ? SETTINGS_RANK_AUTO : s->rank;
	s->job = m->ticket_name;
	s->rendezvous = m->ticket_url;
	return 0;
}

static int find_secret(struct member *m, const struct job_settings *s, struct err *err)
{
	if (m->conf.secret) /* a ticket's */
		return 0;
	char *text = secret_variable(s, "COLLCTL_SECRET", err);
	int ret = -1;
	if (!s->insecure)
		hide(s);
	if (s->insecure || s->tls_cert)
		ret = 0;
	else if (s->secret_fd >= 0)
		ret = secret_from_fd(&m->secret, s->secret_fd, err);
	else if (s->secret_file)
		ret = secret_from_file(&m->secret, s->secret_file, err);
	else if (text)
		ret = secret_from_text(&m->secret, text, "COLLCTL_SECRET", err);
	else if (err->code)
		ret = -1;
	else if (m->conf.size == 1 && !m->conf.rendezvous && !m->conf.hosts)
		ret = 0; /* a single rank needs no meeting place */
	else
		err_set(err, ERR_AUTH,
		        "no job secret: make one with 'collctl keygen FILE' and give every "
		        "rank --secret-file FILE (or --insecure for no encryption)");
	if (ret == 0 && (s->secret_fd >= 0 || s->secret_file || text) && !s->insecure &&
	    !s->tls_cert)
		m->conf.secret = &m->secret;
	wipe_free(text);
	return ret;
}

/* ---- certificates ---- */

static int check_tls_options(const struct job_settings *s, struct err *err)
{
	const char *alone = s->tls_key                    ? "--tls-key"
	                    : s->tls_ca                   ? "--tls-ca"
	                    : s->tls_crl                  ? "--tls-crl"
	                    : s->tls_key_password_fd >= 0 ? "--tls-key-password-fd"
	                                                  : NULL;
	if (!s->tls_cert && alone)
		return err_set(err, ERR_USAGE, "%s: needs --tls-cert FILE", alone);
	if (!s->tls_cert)
		return 0;
	if (!s->tls_ca)
		return err_set(
		        err, ERR_USAGE,
		        "--tls-cert: needs --tls-ca FILE, the CA of all ranks' certificates");
	if (s->insecure || s->secret_file || s->secret_fd >= 0)
		return err_set(err, ERR_USAGE, "--tls-cert and %s exclude each other",
		               s->insecure      ? "--insecure"
		               : s->secret_file ? "--secret-file"
		                                : "--secret-fd");
	return 0;
}

static int load_credentials(struct member *m, const struct job_settings *s, struct err *err)
{
	const char *const names[4] = {s->tls_cert, s->tls_key, s->tls_ca, s->tls_crl};
	char **files = m->tls_files;
	/* The ranks of `run` share a terminal. */
	const bool by_run = m->conf.listen_fd >= 0 || m->conf.coordinator;
	if (m->credentials)
		return 0;
	hide(s);
	for (int i = 0; i < 4; i++) {
		if (m->conf.rank < 0 && names[i] && strstr(names[i], "{rank}"))
			return err_set(err, ERR_USAGE,
			               "%s: the rank is not known yet, so {rank} cannot be "
			               "replaced: give --rank N",
			               names[i]);
		files[i] = names[i] ? paths_fill(names[i], m->conf.rank, m->conf.size, NULL, err)
		                    : NULL;
		if (names[i] && !files[i])
			return -1;
	}
	const struct credentials_conf conf = {.cert = files[0],
	                                      .key = files[1],
	                                      .ca = files[2],
	                                      .crl = files[3],
	                                      .password_fd = s->tls_key_password_fd,
	                                      .ask = by_run ? NULL : s->ask};
	m->credentials = credentials_load(&conf, err);
	m->conf.credentials = m->credentials;
	return m->credentials ? 0 : -1;
}

/* If nothing else gives the rank, the certificate may. */
static int find_certified_rank(struct member *m, const struct job_settings *s, struct err *err)
{
	struct job_conf *c = &m->conf;
	if (!s->tls_cert || c->rank >= 0)
		return 0;
	if (load_credentials(m, s, err) < 0)
		return -1;
	int rank = certificate_rank(credentials_certificate(m->credentials));
	if (rank >= 0)
		c->rank = rank;
	if (c->rank == SETTINGS_RANK_AUTO)
		return err_set(err, ERR_AUTH,
		               "%s: --rank auto needs a certificate that names one rank "
		               "(URI:collctl:rank:N)",
		               m->tls_files[0]);
	return 0;
}

/* The other ranks check the same: this rank can say it at once. */
static int check_own_certificate(struct member *m, const struct job_settings *s, struct err *err)
{
	const struct job_conf *c = &m->conf;
	struct err why = ERR_INIT;
	if (!s->tls_cert)
		return 0;
	if (load_credentials(m, s, err) < 0)
		return -1;
	if (certificate_check(credentials_certificate(m->credentials), c->rank,
	                      c->hosts ? hostfile_host(c->hosts, c->rank) : NULL, &why) < 0)
		return err_set(err, why.code, "%s: %s", m->tls_files[0], why.text);
	return 0;
}

static int find_token(struct member *m, const struct job_settings *s, struct err *err)
{
	char line[TOKEN_MAX];
	if (m->token) /* a ticket's */
		return 0;
	m->token = secret_variable(s, "COLLCTL_STORE_TOKEN", err);
	if (err->code)
		return -1;
	if (m->token || s->store_token_file)
		hide(s);
	if (!s->store_token_file)
		return 0;
	wipe_free(m->token);
	m->token = NULL;
	if (private_line(s->store_token_file, "COLLCTL_STORE_TOKEN may hold the token", line,
	                 sizeof line, err) < 0)
		return -1;
	m->token = err_strdup(line, "the token", err);
	wipe(line, sizeof line);
	return m->token ? 0 : -1;
}

static void find_launch(struct launch *l, const struct job_settings *s)
{
	struct err malformed = ERR_INIT;
	if (launch_detect(l, s->ignore_environment ? no_variable : getenv, &malformed) < 0)
		l->conflict = malformed; /* an error if the rank or the size is needed */
}

/* Is this rank the only one? That is also what a launcher of one task says. */
static bool is_alone(const struct member *m, const struct job_settings *s)
{
	return s->size > 0 ? s->size == 1 : !m->launch.conflict.code && m->launch.size == 1;
}

/* Sources in order: options and COLLCTL_*, the launcher, the hostfile. */
static int find_rank(struct member *m, const struct job_settings *s, struct err *err)
{
	const struct launch *launch = &m->launch;
	struct job_conf *c = &m->conf;
	c->rank = s->rank;
	c->size = s->size > 0 ? s->size : 0;
	if (c->rank == -1 || !c->size) {
		const struct err *bad = &launch->conflict;
		if (bad->code)
			return err_set(err, bad->code, "%s", bad->text);
		if (c->rank == -1 && launch->rank >= 0)
			c->rank = launch->rank;
		if (!c->size && launch->size > 0)
			c->size = launch->size;
	}
	if (c->hosts) {
		if (!c->size)
			c->size = m->hosts.size;
		if (c->rank == -1 && hostfile_local_rank(&m->hosts, &c->rank, err) < 0)
			return -1;
		if (c->rank == SETTINGS_RANK_AUTO)
			return err_set(err, ERR_USAGE,
			               "--rank auto needs a store (--rendezvous): with a hostfile "
			               "the line of a host gives its rank");
	}
	if (find_certified_rank(m, s, err) < 0)
		return -1;
	if (c->rank == -1 && c->size == 1)
		c->rank = 0;
	if (c->rank == -1)
		return err_set(err, ERR_USAGE,
		               "no rank: give --rank (or COLLCTL_RANK, or use a launcher)");
	if (c->rank == SETTINGS_RANK_AUTO)
		c->rank = JOB_RANK_AUTO;
	if (!c->size)
		return err_set(err, ERR_USAGE,
		               "no size: give --size, the number of ranks (or COLLCTL_SIZE)");
	char from[64] = "--rank ";
	if (s->rank == -1 && launch->rank_from)
		snprintf(from, sizeof from, "%s=", launch->rank_from);
	if (c->rank >= c->size)
		return err_set(err, ERR_USAGE, "%s%d: a job of %d ranks has ranks 0 to %d", from,
		               c->rank, c->size, c->size - 1);
	return 0;
}

static int find_rendezvous(struct member *m, const struct job_settings *s, struct err *err)
{
	const bool ask = !s->ignore_environment;
	const char *fd = ask ? getenv(LISTEN_FD) : NULL;
	const char *coordinator = ask ? getenv(COORDINATOR) : NULL;
	struct job_conf *c = &m->conf;
	c->listen_fd = -1;
	if (s->rendezvous && s->hostfile)
		return err_set(err, ERR_USAGE, "--rendezvous and --hostfile exclude each other");
	if (s->rendezvous) {
		c->rendezvous = s->rendezvous;
		if (!c->served_by && strncmp(s->rendezvous, "http", 4) == 0)
			c->served_by = "'collctl serve'";
	} else if (s->hostfile) {
		if (hostfile_find(&m->hosts, s->hostfile, false, err) < 0)
			return -1;
		c->hosts = &m->hosts;
	} else if (fd && *fd) {
		c->listen_fd = atoi(fd);
	} else if (coordinator && *coordinator) {
		c->coordinator = coordinator;
	} else if (!is_alone(m, s)) {
		return err_set(
		        err, ERR_USAGE,
		        "no way to find the other ranks: give --rendezvous URL or --hostfile "
		        "FILE, start all of them with 'collctl run', or give -n 1 if this is "
		        "the only rank");
	}
	return 0;
}

static int check_name(const char *name, struct err *err)
{
	size_t n = strlen(name);
	bool ok = n > 0 && n <= JOB_NAME_MAX;
	for (size_t i = 0; ok && i < n; i++)
		ok = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
	return ok ? 0
	          : err_set(err, ERR_USAGE,
	                    "--job: '%.80s' is not 1 to %d letters, digits, '.', '_' and '-'", name,
	                    JOB_NAME_MAX);
}

/* --job, else the launcher's id, so that two launches never join the same job, else "default". */
static int find_name(struct member *m, const struct job_settings *s, struct err *err)
{
	struct job_conf *c = &m->conf;
	c->name = s->job ? s->job : "default";
	if (!s->job && m->launch.id[0]) {
		c->name = m->launch.id;
		c->name_from = m->launch.id_from;
		memcpy(c->launch_tag, m->launch.tag, sizeof c->launch_tag);
	}
	return check_name(c->name, err);
}

int member_init(struct member *m, const struct job_settings *given, struct err *err)
{
	struct job_settings with_ticket = *given;
	const struct job_settings *const s = &with_ticket;
	memset(m, 0, sizeof *m);
	m->conf.settings = given;
	m->conf.root = -1;
	find_launch(&m->launch, s);
	if (check_tls_options(s, err) < 0 ||
	    (s->congestion && congestion_check(s->congestion, err) < 0) ||
	    find_ticket(m, &with_ticket, err) < 0 || find_rendezvous(m, s, err) < 0 ||
	    find_rank(m, s, err) < 0 || find_name(m, s, err) < 0 ||
	    check_own_certificate(m, s, err) < 0 || find_secret(m, s, err) < 0 ||
	    find_token(m, s, err) < 0 || crypto_begin(err) < 0) {
		member_release(m);
		return -1;
	}
	m->conf.store_token = m->token;
	host_name_own(m->conf.present.host);
	host_id_find(m->conf.present.host_id, s->ignore_environment ? NULL : getenv(HOST_IDENTITY));
	return 0;
}

/* Store the absolute path of the file, or the end of it if it is too long. */
static void present_file(char field[PRESENT_FILE], const char *path)
{
	char whole[PATH_MAX], folder[PATH_MAX] = "";
	if (!realpath(path, whole)) {
		if (*path != '/' && !getcwd(folder, sizeof folder))
			folder[0] = '\0';
		snprintf(whole, sizeof whole, "%.2000s%s%.2000s", folder, *folder ? "/" : "", path);
	}
	size_t len = strlen(whole);
	presence_set(field, PRESENT_FILE,
	             len < PRESENT_FILE ? whole : whole + len - (PRESENT_FILE - 1));
}

/* Does a file exist that has this name or matches this pattern? */
static bool exists(const struct member *m, const char *input, int rank)
{
	struct err ignored = ERR_INIT;
	char *name = (char *)input;
	struct paths paths;
	bool found = strcmp(input, "-") == 0;
	if (paths_expand(&paths, &name, 1, rank, m->conf.size, &ignored) == 0)
		found |= access(paths.names[0], F_OK) == 0;
	paths_release(&paths);
	return found;
}

int member_present(struct member *m, const char *input, const char *output, struct err *err)
{
	struct presence *p = &m->conf.present;
	/* With --rank auto, {rank} is unknown here. */
	int rank = m->conf.rank >= 0 ? m->conf.rank : 0;
	bool known = m->conf.rank >= 0 || !input || !strstr(input, "{rank}");
	char *path = input ? paths_fill(input, rank, m->conf.size, NULL, err) : NULL;
	if (input && !path)
		return -1;
	if (input) {
		present_file(p->input, known ? path : input);
		p->has_input = known && exists(m, input, rank);
	}
	free(path);
	if (output)
		present_file(p->output, output);
	return 0;
}

void member_release(struct member *m)
{
	secret_wipe(&m->secret);
	hostfile_release(&m->hosts);
	wipe_free(m->token);
	m->token = NULL;
	credentials_free(m->credentials);
	m->credentials = NULL;
	for (int i = 0; i < 4; i++) {
		free(m->tls_files[i]);
		m->tls_files[i] = NULL;
	}
}
