
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/private.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/collctl-private.XXXXXX";

static int make_dir(void **state)
{
	return mkdtemp(dir) ? chdir(dir) : -1;
}

static int remove_dir(void **state)
{
	unlink("token");
	unlink("link");
	return chdir("/") || rmdir(dir);
}

static void put_file(const char *text, size_t len, mode_t mode)
{
	unlink("token");
	int fd = open("token", O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void assert_refused(const char *says)
{
	char text[16];
	struct err e = {0};
	assert_int_equal(private_line("token", "not a pipe", text, sizeof text, &e), -1);
	assert_int_equal(e.code, ERR_AUTH);
	if (!strstr(e.text, says))
		fail_msg("'%s' does not say '%s'", e.text, says);
}

TEST(test_line)
{
	static const struct {
		const char *file, *line;
	} rows[] = {
	        {"letmein\n", "letmein"},
	        {"letmein", "letmein"},
	        {"letmein\r\nmore\n", "letmein"},
	        {"", ""},
	        {"\n", ""},
	        {"fifteen letters\n", "fifteen letters"},
	        {"fifteen letters", "fifteen letters"},
	};
	char text[16];
	struct err e = {0};
	for (size_t i = 0; i < LENGTH(rows); i++) {
		put_file(rows[i].file, strlen(rows[i].file), 0600);
		assert_int_equal(private_line("token", "", text, sizeof text, &e), 0);
		assert_string_equal(text, rows[i].line);
	}
	assert_int_equal(symlink("token", "link"), 0);
	assert_int_equal(private_line("link", "", text, sizeof text, &e), 0);
	put_file("sixteen letters!", 16, 0600);
	assert_refused("more than 15 bytes");
}

TEST(test_refused)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0666};
	for (size_t i = 0; i < LENGTH(modes); i++) {
		put_file("letmein\n", 8, modes[i]);
		assert_refused("chmod 600 token");
	}
	put_file("letmein\n", 8, 0600);
	if (geteuid() == 0) {
		assert_int_equal(chown("token", 12345, (gid_t)-1), 0);
		assert_refused("user 12345");
		assert_refused("chown 0 token");
	}
	unlink("token");
	assert_refused("token: No such file");
	assert_int_equal(mkfifo("token", 0600), 0);
	assert_refused("not a regular file; not a pipe");
}

TEST(test_variable)
{
	struct err e = {0};
	assert_int_equal(private_set_variable("PRIVATE_TEST", "a value"), 0);
	const char *kept = getenv("PRIVATE_TEST");
	char *value = private_variable("PRIVATE_TEST", &e);
	assert_string_equal(value, "a value");
	assert_string_equal(getenv("PRIVATE_TEST"), "");
	assert_memory_equal(kept, "\0\0\0\0\0\0\0", 7);
	wipe_free(value);
	assert_null(private_variable("PRIVATE_TEST", &e));
	assert_int_equal(private_set_variable("PRIVATE_EMPTY", ""), 0);
	assert_null(private_variable("PRIVATE_EMPTY", &e));
	assert_int_equal(e.code, 0);
}

TEST(test_heap)
{
	char *p = private_realloc(NULL, 4);
	assert_non_null(p);
	memcpy(p, "key", 4);
	p = private_realloc(p, 4096);
	assert_string_equal(p, "key");
	p = private_realloc(p, 2);
	assert_memory_equal(p, "ke", 2);
	private_free(p);
	private_free(NULL);
	uint8_t *zeros = private_calloc(3, 5);
	for (int i = 0; i < 15; i++)
		assert_int_equal(zeros[i], 0);
	private_free(zeros);
	volatile size_t huge = SIZE_MAX;
	assert_null(private_calloc(huge, 2));
	assert_null(private_malloc(huge));
	char *text = private_strdup("text");
	assert_string_equal(text, "text");
	private_free(text);
}

/* What a secret buffer drops is wiped where it lay; it holds the same bytes as any other. */
TEST(test_buffer)
{
	struct buf b;
	buf_init_secret(&b, 4096);
	for (int i = 0; i < 200; i++)
		buf_put_u8(&b, (uint8_t)(i | 1));
	assert_int_equal(b.len, 200);
	buf_drop(&b, 150);
	for (int i = 0; i < 50; i++)
		assert_int_equal(b.data[i], (150 + i) | 1);
	for (int i = 50; i < 200; i++)
		assert_int_equal(b.data[i], 0);
	buf_release(&b);
	assert_true(b.secret);
}

int main(void)
{
	return unit_run(make_dir, remove_dir);
}
