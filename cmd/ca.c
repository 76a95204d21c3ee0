/* collctl ca: a small CA in a folder: ca.pem, ca.key and, once something is revoked, ca.crl. */
#include "cmd/ask_password.h"
#include "cmd/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/path.h"
#include "lib/base/private.h"
#include "lib/base/write_file.h"
#include "lib/net/authority.h"

#define CA_DAYS   3650
#define RANK_DAYS 365

/* The files of a certificate: FOLDER/NAME.pem and .key. */
struct files {
	char *cert, *key;
};

static int files_of(struct files *f, const char *folder, const char *name, struct err *err)
{
	char cert[160], key[160];
	snprintf(cert, sizeof cert, "%s.pem", name);
	snprintf(key, sizeof key, "%s.key", name);
	f->cert = path_join(folder, cert, err);
	f->key = f->cert ? path_join(folder, key, err) : NULL;
	return f->key ? 0 : -1;
}

static void files_release(struct files *f)
{
	free(f->cert);
	free(f->key);
}

/* The key first: without it nobody can use the certificate. */
static int write_pair(const struct options *o, const struct files *f, const struct issued *i,
                      const char *whose, struct err *err)
{
	const bool replace = o->request.force;
	if (write_file(f->key, i->key, (struct write_how){.secret = true, .replace = replace},
	               err) < 0 ||
	    write_file(f->cert, i->cert, (struct write_how){.replace = replace}, err) < 0)
		return -1;
	if (o->verbose >= 0)
		fprintf(stderr, "collctl: %s, %s: %s, valid until %s\n", f->cert, f->key, whose,
		        i->until);
	return 0;
}

static struct credentials *open_ca(const char *folder, struct files *f, struct err *err)
{
	if (files_of(f, folder, "ca", err) < 0)
		return NULL;
	const struct credentials_conf conf = {.cert = f->cert,
	                                      .key = f->key,
	                                      .ca = f->cert,
	                                      .password_fd = -1,
	                                      .ask = ask_on_terminal};
	return credentials_load(&conf, err);
}

static int init(const struct options *o, const char *folder, struct err *err)
{
	const char *name = o->ca.name ? o->ca.name : "collctl CA";
	struct files f = {0};
	struct issued i = {0};
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_OUTPUT, "%s", folder);
	int ret = files_of(&f, folder, "ca", err);
	if (ret == 0)
		ret = authority_make(name, o->ca.days ? o->ca.days : CA_DAYS, &i, err);
	if (ret == 0)
		ret = write_pair(o, &f, &i, "a CA", err);
	issued_release(&i);
	files_release(&f);
	return ret;
}

static int check_host(const char *host, struct err *err)
{
	bool ok = *host && strlen(host) <= 128 && *host != '.' && *host != '-';
	for (const char *p = host; ok && *p; p++)
		ok = isalnum((unsigned char)*p) || strchr(".-_:", *p);
	return ok ? 0
	          : err_set(err, ERR_USAGE, "--host: '%.80s' is not the name or address of a host",
	                    host);
}

static int issue(const struct options *o, const char *folder, struct err *err)
{
	const int rank = o->request.settings.rank;
	const char *host = o->ca.host;
	char name[140], whose[160];
	struct files of_ca = {0}, f = {0};
	struct issued i = {0};
	if (rank < 0 && !host)
		return err_set(err, ERR_USAGE, "ca issue: give --rank N, --host NAME or both");
	if (host && check_host(host, err) < 0)
		return -1;
	if (rank >= 0)
		snprintf(name, sizeof name, "rank-%d", rank);
	else
		snprintf(name, sizeof name, "%s", host);
	if (rank >= 0)
		snprintf(whose, sizeof whose, "rank %d%s%s", rank, host ? " on " : "",
		         host ? host : "");
	else
		snprintf(whose, sizeof whose, "the ranks of host %s", host);
	struct credentials *ca = open_ca(folder, &of_ca, err);
	int ret = ca ? files_of(&f, folder, name, err) : -1;
	if (ret == 0)
		ret = authority_issue(ca, rank, host, o->ca.days ? o->ca.days : RANK_DAYS, &i, err);
	if (ret == 0)
		ret = write_pair(o, &f, &i, whose, err);
	credentials_free(ca);
	issued_release(&i);
	files_release(&f);
	files_release(&of_ca);
	return ret;
}

static int revoke(const struct options *o, const char *folder, char **certs, int n, struct err *err)
{
	struct files of_ca = {0};
	struct credentials *ca = open_ca(folder, &of_ca, err);
	char *list = ca ? path_join(folder, "ca.crl", err) : NULL;
	int ret = list ? 0 : -1;
	for (int i = 0; ret == 0 && i < n; i++) {
		char *text = authority_revoke(ca, list, certs[i], err);
		ret = text ? write_file(list, text, (struct write_how){.replace = true}, err) : -1;
		free(text);
		if (ret == 0 && o->verbose >= 0)
			fprintf(stderr, "collctl: %s: revoked; give %s to every rank (--tls-crl)\n",
			        certs[i], list);
	}
	free(list);
	credentials_free(ca);
	files_release(&of_ca);
	return ret;
}

int cmd_ca(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = {.rank = ERR_RANK_SELF};
	const char *action = argv[1];
	int ret;
	(void)cmd;
	private_process(NULL);
	if (strcmp(action, "init") == 0 && argc == 3)
		ret = init(o, argv[2], &err);
	else if (strcmp(action, "issue") == 0 && argc == 3)
		ret = issue(o, argv[2], &err);
	else if (strcmp(action, "revoke") == 0 && argc > 3)
		ret = revoke(o, argv[2], argv + 3, argc - 3, &err);
	else
		ret = err_set(
		        &err, ERR_USAGE,
		        "ca: expected 'init DIR', 'issue DIR' or 'revoke DIR CERTIFICATE...'");
	return ret < 0 ? report(&err, -1) : 0;
}
