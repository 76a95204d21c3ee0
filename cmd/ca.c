/* collctl ca: a small CA in a folder: ca.pem, ca.key and, once something is revoked, ca.crl. */
#include "cmd/commands.h"
#include "cmd/text/ask_password.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/private.h"
#include "lib/base/write_file.h"
#include "lib/crypto/authority.h"
#include "lib/data/files/target.h"

#define CA_DAYS   3650
#define RANK_DAYS 365

/* A certificate and its key: FOLDER/NAME.pem and FOLDER/NAME.key. */
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

/* One `ca` at a time works in a folder. Returns a descriptor, whose end releases the folder. */
static int lock_folder(const char *folder, struct err *err)
{
	if (target_check_folder(folder, err) < 0)
		return -1;
	int fd = io_retry(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0)
		return err_errno(err, ERR_INPUT, "%s", folder);
	if (io_retry(flock(fd, LOCK_EX)) == 0)
		return fd;
	close(fd);
	return err_errno(err, ERR_INPUT, "%s", folder);
}

static int must_not_exist(const char *path, struct err *err)
{
	if (access(path, F_OK) < 0)
		return 0;
	return err_set(err, ERR_OUTPUT, "%s: exists and is not overwritten without --force", path);
}

static int put(const char *path, const char *text, bool secret, struct err *err)
{
	return write_file(path, text, (struct write_how){.secret = secret, .replace = true}, err);
}

/* Both files or none. */
static int write_pair(const struct options *o, const struct files *f, const struct issued *i,
                      const char *whose, struct err *err)
{
	if (!o->request.force &&
	    (must_not_exist(f->key, err) < 0 || must_not_exist(f->cert, err) < 0))
		return -1;
	/* the new one, until the certificate is there */
	char *key = err_asprintf("a file name", err, "%s.new", f->key);
	if (!key)
		return -1;
	int ret = put(key, i->key, true, err);
	if (ret == 0)
		ret = put(f->cert, i->cert, false, err);
	if (ret == 0 && io_retry(rename(key, f->key)) < 0)
		ret = err_errno(err, ERR_OUTPUT, "%s", f->key);
	if (ret < 0)
		unlink(key);
	free(key);
	if (ret == 0 && o->verbose >= 0)
		report_note("%s, %s: %s, valid until %s", f->cert, f->key, whose, i->until);
	return ret;
}

/* The CA in a folder, which is locked. */
struct ca {
	int lock;
	struct files files;
	struct credentials *credentials;
};

static int ca_open(struct ca *ca, const struct options *o, const char *folder, struct err *err)
{
	*ca = (struct ca){.lock = lock_folder(folder, err)};
	if (ca->lock < 0 || files_of(&ca->files, folder, "ca", err) < 0)
		return -1;
	const struct credentials_conf conf = {.cert = ca->files.cert,
	                                      .key = ca->files.key,
	                                      .ca = ca->files.cert,
	                                      .password_fd =
	                                              o->request.settings.tls_key_password_fd,
	                                      .ask = ask_on_terminal};
	ca->credentials = credentials_load(&conf, err);
	return ca->credentials ? authority_check(ca->credentials, ca->files.cert, err) : -1;
}

static void ca_close(struct ca *ca)
{
	credentials_free(ca->credentials);
	files_release(&ca->files);
	if (ca->lock >= 0)
		close(ca->lock);
}

static int init(const struct options *o, const char *folder, struct err *err)
{
	const char *name = o->ca.name;
	struct files f = {0};
	struct issued i = {0};
	if (name && (!*name || strlen(name) > 64))
		return err_set(err, ERR_USAGE, "--name: '%.80s' is not 1 to 64 bytes", name);
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return err_errno(err, ERR_OUTPUT, "%s", folder);
	int lock = lock_folder(folder, err);
	int ret = lock < 0 ? -1 : files_of(&f, folder, "ca", err);
	if (ret == 0)
		ret = authority_make(name, o->ca.days ? o->ca.days : CA_DAYS, &i, err);
	if (ret == 0)
		ret = write_pair(o, &f, &i, "a CA", err);
	issued_release(&i);
	files_release(&f);
	if (lock >= 0)
		close(lock);
	return ret;
}

static int check_host(const char *host, struct err *err)
{
	bool ok = *host && strlen(host) <= 128 && isalnum((unsigned char)*host);
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
	struct ca ca;
	struct files f = {0};
	struct issued i = {0};
	if ((rank >= 0) == (host != NULL))
		return err_set(err, ERR_USAGE, "ca issue: give --rank N or --host NAME");
	if (host && check_host(host, err) < 0)
		return -1;
	if (host) {
		snprintf(name, sizeof name, "host-%s", host);
		snprintf(whose, sizeof whose, "the ranks of host %s", host);
	} else {
		snprintf(name, sizeof name, "rank-%d", rank);
		snprintf(whose, sizeof whose, "rank %d", rank);
	}
	int ret = ca_open(&ca, o, folder, err);
	if (ret == 0)
		ret = files_of(&f, folder, name, err);
	if (ret == 0)
		ret = authority_issue(ca.credentials, rank, host,
		                      o->ca.days ? o->ca.days : RANK_DAYS, &i, err);
	if (ret == 0)
		ret = write_pair(o, &f, &i, whose, err);
	issued_release(&i);
	files_release(&f);
	ca_close(&ca);
	return ret;
}

static int revoke_all(const struct options *o, const char *folder, char **certs, int n,
                      struct err *err)
{
	struct ca ca;
	char *list = ca_open(&ca, o, folder, err) == 0 ? path_join(folder, "ca.crl", err) : NULL;
	int ret = list ? 0 : -1;
	for (int i = 0; ret == 0 && i < n; i++) {
		char *text = authority_revoke(ca.credentials, list, certs[i], err);
		ret = text ? put(list, text, false, err) : -1;
		free(text);
		if (ret == 0 && o->verbose >= 0)
			report_note("%s: revoked; give %s to every rank (--tls-crl)", certs[i],
			            list);
	}
	free(list);
	ca_close(&ca);
	return ret;
}

/* Options that only another action takes. */
static int check_action(const struct options *o, const char *action, struct err *err)
{
	bool init_only = o->ca.name, issue_only = o->ca.host || o->request.settings.rank >= 0;
	const char *wrong = strcmp(action, "init") != 0 && init_only
	                            ? "--name is an option of ca init"
	                    : strcmp(action, "issue") != 0 && issue_only ? "--rank and --host are "
	                                                                   "options of ca issue"
	                                                                 : NULL;
	return wrong ? err_set(err, ERR_USAGE, "ca %s: %s", action, wrong) : 0;
}

int cmd_ca(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct err err = ERR_INIT;
	const char *action = argv[1];
	int ret;
	(void)cmd;
	private_process(NULL);
	if (check_action(o, action, &err) < 0)
		ret = -1;
	else if (strcmp(action, "init") == 0 && argc == 3)
		ret = init(o, argv[2], &err);
	else if (strcmp(action, "issue") == 0 && argc == 3)
		ret = issue(o, argv[2], &err);
	else if (strcmp(action, "revoke") == 0 && argc > 3)
		ret = revoke_all(o, argv[2], argv + 3, argc - 3, &err);
	else
		ret = err_set(
		        &err, ERR_USAGE,
		        "ca: expected 'init DIR', 'issue DIR' or 'revoke DIR CERTIFICATE...'");
	return ret < 0 ? report(&err, -1) : 0;
}
