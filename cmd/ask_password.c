#include "cmd/ask_password.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"

int ask_on_terminal(const char *question, char *text, size_t cap)
{
	/* Without a terminal OpenSSL would read stdin, which may be the input. */
	int fd = io_retry(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
	if (fd < 0)
		return -1;
	close(fd);
	if (EVP_read_pw_string(text, cap < INT_MAX ? (int)cap : INT_MAX, question, 0) != 0)
		return -1;
	return (int)strnlen(text, cap);
}
