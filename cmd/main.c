#include <fcntl.h>
#ifdef COLLCTL_STATIC
#include <nss.h>
#endif
#ifdef COLLCTL_LINKED
#include <openssl/crypto.h>
#endif
#include <unistd.h>

#include "cmd/commands.h"

/* A closed standard descriptor must not become a socket or an output file, which would receive
 * messages. Its replacement fails to read (0) or to write (1, 2), like a closed one. */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* A program that contains the C library or OpenSSL must open no modules of the host's: they may be
 * of other versions. */
static void use_no_modules(void)
{
#ifdef COLLCTL_STATIC
	__nss_configure_lookup("hosts", "files dns");
#endif
#ifdef COLLCTL_LINKED
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
#endif
}

int main(int argc, char **argv)
{
	use_no_modules();
	hold_standard_descriptors();
	return collctl_main(argc, argv);
}
