#include "cmd/joining.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/paths.h"
#include "cmd/report.h"
#include "lib/base/private.h"

#define TOKEN_MAX 1024

/* Variables by which `collctl run` hands its ranks over; not for users. */
#define LISTEN_FD   "COLLCTL_LISTEN_FD"
#define COORDINATOR "COLLCTL_COORDINATOR"

static int find_secret(struct joining *j, const struct options *o, struct err *err)
{
	char *text = private_variable("COLLCTL_SECRET", err);
	int ret = -1;
	if (!o->insecure)
		private_process(NULL);
	if (o->insecure)
		ret = 0;
	else if (o->secret_fd >= 0)
		ret = secret_from_fd(&j->secret, o->secret_fd, err);
	else if (o->secret_file)
		ret = secret_from_file(&j->secret, o->secret_file, err);
	else if (text)
		ret = secret_from_text(&j->secret, text, "COLLCTL_SECRET", err);
	else if (err->code)
		ret = -1;
	else if (j->conf.size == 1 && !j->conf.rendezvous && !j->conf.hosts)
		ret = 0; /* a rank alone meets nobody */
	else
		err_set(err, ERR_AUTH,
		        "no job secret: make one with 'collctl keygen FILE' and give every "
		        "rank --secret-file FILE (or --insecure to do without)");
	if (ret == 0 && (o->secret_fd >= 0 || o->secret_file || text) && !o->insecure)
		j->conf.secret = &j->secret;
	wipe_free(text);
	return ret;
}

static int find_token(struct joining *j, const struct options *o, struct err *err)
{
	char line[TOKEN_MAX];
	j->token = private_variable("COLLCTL_STORE_TOKEN", err);
	if (err->code)
		return -1;
	if (j->token || o->store_token_file)
		private_process(NULL);
	if (!o->store_token_file)
		return 0;
	wipe_free(j->token);
	j->token = NULL;
	if (private_line(o->store_token_file, "COLLCTL_STORE_TOKEN may hold the token", line,
	                 sizeof line, err) < 0)
		return -1;
	j->token = strdup(line);
	if (!j->token)
		err_nomem(err, "the token", strlen(line));
	wipe(line, sizeof line);
	return j->token ? 0 : -1;
}

/* Flags and COLLCTL_* first, then the launcher, then the hostfile. */
static int find_rank(struct joining *j, const struct options *o, struct err *err)
{
	struct launch *launch = &j->launch;
	struct err malformed = {.rank = ERR_RANK_SELF};
	struct job_conf *c = &j->conf;
	int ret = launch_detect(launch, getenv, &malformed);
	c->rank = o->rank;
	c->size = o->size > 0 ? o->size : 0;
	if (c->rank == -1 || !c->size) {
		const struct err *bad = ret < 0 ? &malformed : &launch->conflict;
		if (bad->code)
			return err_set(err, bad->code, "%s", bad->text);
		if (c->rank == -1 && launch->rank >= 0)
			c->rank = launch->rank;
		if (!c->size && launch->size > 0)
			c->size = launch->size;
	}
	if (c->hosts) {
		if (!c->size)
			c->size = j->hosts.size;
		if (c->rank == -1 && hostfile_local_rank(&j->hosts, &c->rank, err) < 0)
			return -1;
		if (c->rank == RANK_AUTO)
			return err_set(err, ERR_USAGE,
			               "--rank auto needs a store (--rendezvous): with a hostfile "
			               "every rank has its line");
	}
	if (c->rank == -1 && c->size == 1)
		c->rank = 0;
	if (c->rank == -1)
		return err_set(err, ERR_USAGE,
		               "no rank: give --rank (or COLLCTL_RANK, or start it by a launcher)");
	if (c->rank == RANK_AUTO)
		c->rank = JOB_RANK_AUTO;
	if (!c->size)
		return err_set(err, ERR_USAGE,
		               "no size: give --size, the number of ranks (or COLLCTL_SIZE)");
	if (c->rank >= c->size)
		return err_set(err, ERR_USAGE, "--rank %d: the ranks of %d are 0 to %d", c->rank,
		               c->size, c->size - 1);
	return 0;
}

static int find_rendezvous(struct joining *j, const struct options *o, struct err *err)
{
	const char *fd = getenv(LISTEN_FD), *coordinator = getenv(COORDINATOR);
	struct job_conf *c = &j->conf;
	c->listen_fd = -1;
	if (o->rendezvous && o->hostfile)
		return err_set(err, ERR_USAGE, "--rendezvous and --hostfile exclude each other");
	if (o->rendezvous) {
		c->rendezvous = o->rendezvous;
	} else if (o->hostfile) {
		if (hostfile_read(&j->hosts, o->hostfile, err) < 0)
			return -1;
		c->hosts = &j->hosts;
	} else if (fd && *fd) {
		c->listen_fd = atoi(fd);
	} else if (coordinator && *coordinator) {
		c->coordinator = coordinator;
	} else if (o->size != 1) {
		return err_set(
		        err, ERR_USAGE,
		        "nowhere to meet the other ranks: give --rendezvous URL or --hostfile "
		        "FILE, or start all of them with 'collctl run'");
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

/* --job, else the launcher's id of this launch, so that two launches never meet, else "default". */
static int find_name(struct joining *j, const struct options *o, struct err *err)
{
	struct job_conf *c = &j->conf;
	c->name = o->job ? o->job : "default";
	if (!o->job && j->launch.id[0]) {
		c->name = j->launch.id;
		c->name_from = j->launch.id_from;
		memcpy(c->launch_tag, j->launch.tag, sizeof c->launch_tag);
	}
	return check_name(c->name, err);
}

/* ---- -v ---- */

static void print_note(void *ctx, int level, int rank, const char *text)
{
	const struct joining *j = ctx;
	if (level > j->verbose)
		return;
	if (rank >= 0)
		report_note("rank %d: %s", rank, text);
	else
		report_note("%s", text);
}

/* @value NULL: nothing was given. */
static void print_source(const struct joining *j, const struct options *o, const char *what,
                         const char *value, const void *member)
{
	char from[64], text[512];
	if (!value)
		return;
	snprintf(text, sizeof text, "%s %s (%s)", what, value,
	         options_source(o, member, from, sizeof from));
	j->conf.note(j->conf.note_ctx, 1, j->conf.rank >= 0 ? j->conf.rank : -1, text);
}

/* Print the rank, the size, the job's name and the addresses, and where each came from. */
static void print_sources(const struct joining *j, const struct options *o)
{
	const struct job_conf *c = &j->conf;
	const struct launch *l = &j->launch;
	char rank[64], size[64], name[64], number[16] = "auto";
	const char *file = c->hosts ? "the hostfile" : "nowhere";
	const char *rank_from = o->rank != -1  ? options_source(o, &o->rank, rank, sizeof rank)
	                        : l->rank_from ? l->rank_from
	                        : c->size == 1 ? "--size 1"
	                                       : file;
	const char *size_from = o->size > 0    ? options_source(o, &o->size, size, sizeof size)
	                        : l->size_from ? l->size_from
	                                       : file;
	const char *name_from = o->job         ? options_source(o, &o->job, name, sizeof name)
	                        : c->name_from ? c->name_from
	                                       : "the default";
	if (c->rank >= 0)
		snprintf(number, sizeof number, "%d", c->rank);
	report_note("rank %s (%s) of %d (%s), job %s (%s)%s%s", number, rank_from, c->size,
	            size_from, c->name, name_from, l->launcher ? ", started by " : "",
	            l->launcher ? l->launcher : "");
	if (c->rendezvous)
		print_source(j, o, "meeting at the store", c->rendezvous, &o->rendezvous);
	else if (c->hosts)
		print_source(j, o, "meeting at the first host of", o->hostfile, &o->hostfile);
	print_source(j, o, "listening at", c->listen, &o->listen);
	print_source(j, o, "advertising", c->advertise, &o->advertise);
	print_source(j, o, "using the interface", c->iface, &o->iface);
}

int joining_init(struct joining *j, const struct options *o, struct err *err)
{
	memset(j, 0, sizeof *j);
	j->conf = (struct job_conf){
	        .listen = o->listen,
	        .advertise = o->advertise,
	        .iface = o->iface,
	        .port_lo = o->port_lo,
	        .port_hi = o->port_hi,
	        .join_timeout = o->join_timeout,
	        .timeout = o->timeout,
	};
	if (find_rendezvous(j, o, err) < 0 || find_rank(j, o, err) < 0 ||
	    find_name(j, o, err) < 0 || find_secret(j, o, err) < 0 || find_token(j, o, err) < 0) {
		joining_release(j);
		return -1;
	}
	j->conf.store_token = j->token;
	char host[256] = "";
	if (gethostname(host, sizeof host - 1) == 0)
		presence_set(j->conf.present.host, sizeof j->conf.present.host, host);
	j->verbose = o->verbose;
	j->conf.note = print_note;
	j->conf.note_ctx = j;
	if (o->verbose > 0)
		print_sources(j, o);
	return 0;
}

/* A name of the file that does not depend on the working directory; if it is long, its end. */
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

/* Is there a file of this name, or one that matches it as a pattern? */
static bool exists(const struct joining *j, const char *input, int rank)
{
	struct err ignored = {.rank = ERR_RANK_SELF};
	char *name = (char *)input;
	struct paths paths;
	bool found = strcmp(input, "-") == 0;
	if (paths_expand(&paths, &name, 1, rank, j->conf.size, &ignored) == 0)
		found |= access(paths.names[0], F_OK) == 0;
	paths_release(&paths);
	return found;
}

int joining_present(struct joining *j, const char *input, const char *output, struct err *err)
{
	struct presence *p = &j->conf.present;
	/* With --rank auto {rank} is not known yet. */
	int rank = j->conf.rank >= 0 ? j->conf.rank : 0;
	bool known = j->conf.rank >= 0 || !input || !strstr(input, "{rank}");
	char *path = input ? paths_fill(input, rank, j->conf.size, NULL, err) : NULL;
	if (input && !path)
		return -1;
	if (input) {
		present_file(p->input, known ? path : input);
		p->has_input = known && exists(j, input, rank);
	}
	free(path);
	if (output)
		present_file(p->output, output);
	return 0;
}

void joining_release(struct joining *j)
{
	secret_wipe(&j->secret);
	hostfile_release(&j->hosts);
	wipe_free(j->token);
	j->token = NULL;
}
