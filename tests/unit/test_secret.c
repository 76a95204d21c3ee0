
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/write_file.h"
#include "lib/crypto/secret.h"
#include "tests/unit/unit.h"

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static char dir[] = "/tmp/collctl-secret.XXXXXX";

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	return chdir(dir);
}

static int remove_dir(void **state)
{
	unlink("key");
	return chdir("/") || rmdir(dir);
}

static void put_file(const char *text, mode_t mode)
{
	unlink("key");
	int fd = open("key", O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void assert_refused(int rc, const struct err *e, const char *says)
{
	assert_int_equal(rc, -1);
	assert_int_equal(e->code, ERR_AUTH);
	if (!strstr(e->text, says))
		fail_msg("'%s' does not say '%s'", e->text, says);
}

TEST(test_generate)
{
	struct secret a, b, c;
	struct err e = {0};
	char ta[SECRET_TEXT], tb[SECRET_TEXT];

	assert_int_equal(secret_generate(&a, ta, &e), 0);
	assert_int_equal(secret_generate(&b, tb, &e), 0);
	assert_memory_not_equal(a.key, b.key, SECRET_BYTES);
	assert_int_equal(strlen(ta), 65);
	assert_int_equal(ta[64], '\n');
	assert_int_equal(strspn(ta, "0123456789abcdef"), 64);
	assert_int_equal(secret_from_text(&c, ta, "text", &e), 0);
	assert_memory_equal(a.key, c.key, SECRET_BYTES);
	assert_int_equal(secret_random_text(ta, &e), 0);
	assert_int_equal(strlen(ta), 64);
	assert_int_equal(secret_from_text(&c, ta, "text", &e), 0);
	assert_memory_not_equal(a.key, c.key, SECRET_BYTES);
}

TEST(test_text)
{
	struct secret s;
	struct err e = {0};

	assert_int_equal(secret_from_text(&s, HEX, "X", &e), 0);
	for (int i = 0; i < SECRET_BYTES; i++)
		assert_int_equal(s.key[i], i);
	assert_int_equal(secret_from_text(&s, HEX "\n", "X", &e), 0);

	static const struct {
		const char *text, *says;
	} bad[] = {
	        {"", "X: 0 characters"},      {"\n", "X: 0 characters"},
	        {"abcd", "X: 4 characters"},  {HEX "0", "X: longer"},
	        {HEX "\n\n", "X: longer"},    {HEX " ", "X: longer"},
	        {" " HEX, "X: character 1 "}, {"00z", "X: character 3 "},
	};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		err_clear(&e);
		memset(&s, 0xff, sizeof s);
		assert_refused(secret_from_text(&s, bad[i].text, "X", &e), &e, bad[i].says);
		static const struct secret zero;
		assert_memory_equal(&s, &zero, sizeof s); /* no half of a key is left */
	}
}

TEST(test_file)
{
	struct secret s;
	struct err e = {0};

	put_file(HEX "\n", 0600);
	assert_int_equal(secret_from_file(&s, "key", &e), 0);
	assert_int_equal(s.key[31], 31);
	put_file(HEX, 0400);
	assert_int_equal(secret_from_file(&s, "key", &e), 0);

	static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0610, 0666};
	for (size_t i = 0; i < LENGTH(open_modes); i++) {
		err_clear(&e);
		put_file(HEX "\n", open_modes[i]);
		assert_refused(secret_from_file(&s, "key", &e), &e, "chmod 600 key");
	}
	put_file("not a secret, but perhaps a password\n", 0600);
	err_clear(&e);
	assert_refused(secret_from_file(&s, "key", &e), &e, "key: ");
	assert_null(strstr(e.text, "password"));
	err_clear(&e);
	assert_refused(secret_from_file(&s, "nowhere", &e), &e, "nowhere: No such file");
	err_clear(&e);
	assert_refused(secret_from_file(&s, "/tmp", &e), &e, "not a regular file");
}

/* A fifo that nobody writes to must be refused, not waited for. */
TEST(test_fifo)
{
	struct secret s;
	struct err e = {0};

	unlink("key");
	assert_int_equal(mkfifo("key", 0600), 0);
	assert_refused(secret_from_file(&s, "key", &e), &e, "--secret-fd");
}

TEST(test_fd)
{
	struct secret s;
	struct err e = {0};
	int p[2];

	assert_int_equal(pipe(p), 0);
	static const char text[] = HEX "\n";
	assert_int_equal(write(p[1], text, 10), 10); /* two reads */
	assert_int_equal(write(p[1], text + 10, 55), 55);
	close(p[1]);
	assert_int_equal(secret_from_fd(&s, p[0], &e), 0);
	assert_int_equal(s.key[31], 31);
	assert_int_equal(fcntl(p[0], F_GETFD), -1); /* it was closed */

	int memory = memfd_create("secret", MFD_CLOEXEC); /* mode 0777, but it has no name */
	assert_int_equal(write(memory, HEX, 64), 64);
	lseek(memory, 0, SEEK_SET);
	assert_int_equal(secret_from_fd(&s, memory, &e), 0);

	put_file(HEX "\n", 0644);
	assert_refused(secret_from_fd(&s, open("key", O_RDONLY), &e), &e, "chmod 600 the file");
	err_clear(&e);
	assert_refused(secret_from_fd(&s, 9999, &e), &e, "file descriptor 9999");
}

#define SECRET                 \
	(struct write_how)     \
	{                      \
		.secret = true \
	}

TEST(test_write)
{
	struct secret s;
	struct err e = {0};
	struct stat st;

	unlink("key");
	mode_t old = umask(0777);
	assert_int_equal(write_file("key", HEX "\n", SECRET, &e), 0);
	umask(old);
	assert_int_equal(stat("key", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 65);
	assert_int_equal(secret_from_file(&s, "key", &e), 0);

	assert_int_equal(write_file("key", "other", SECRET, &e), -1);
	assert_int_equal(e.code, ERR_OUTPUT);
	assert_non_null(strstr(e.text, "key: exists"));
	assert_int_equal(secret_from_file(&s, "key", NULL), 0);

	unlink("key");
	assert_int_equal(symlink("elsewhere", "key"), 0);
	err_clear(&e);
	assert_int_equal(write_file("key", HEX "\n", SECRET, &e), -1);
	assert_int_equal(access("elsewhere", F_OK), -1);
	err_clear(&e);
	assert_int_equal(write_file("nowhere/key", HEX "\n", SECRET, &e), -1);
	assert_int_equal(e.code, ERR_OUTPUT);
}

static void from_hex(const char *hex, uint8_t *out)
{
	for (; *hex; hex += 2) {
		unsigned v;
		assert_int_equal(sscanf(hex, "%2x", &v), 1);
		*out++ = (uint8_t)v;
	}
}

/* RFC 4231, cases 2 and 6. */
TEST(test_mac)
{
	struct err e = {0};
	uint8_t out[32], want[32], key[131];

	from_hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", want);
	assert_int_equal(
	        secret_mac((const uint8_t *)"Jefe", 4, "what do ya want for nothing?", 28, out, &e),
	        0);
	assert_memory_equal(out, want, 32);
	memset(key, 0xaa, sizeof key);
	from_hex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", want);
	const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
	assert_int_equal(secret_mac(key, sizeof key, text, strlen(text), out, &e), 0);
	assert_memory_equal(out, want, 32);
	assert_int_equal(secret_mac(key, 32, "", 0, out, &e), 0);
}

/* HKDF by its definition (RFC 5869), from HMAC. */
TEST(test_derive)
{
	struct err e = {0};
	struct secret s;
	uint8_t prk[32], t[32], block[32 + 16], got[48], shorter[16];

	assert_int_equal(secret_from_text(&s, HEX, "X", &e), 0);
	assert_int_equal(secret_mac((const uint8_t *)"collctl 1", 9, s.key, 32, prk, &e), 0);
	assert_int_equal(secret_mac(prk, 32, "control\1", 8, t, &e), 0);
	assert_int_equal(secret_derive(s.key, 32, "control", 7, got, sizeof got, &e), 0);
	assert_memory_equal(got, t, 32);
	memcpy(block, t, 32);
	memcpy(block + 32, "control\2", 8);
	assert_int_equal(secret_mac(prk, 32, block, 40, t, &e), 0);
	assert_memory_equal(got + 32, t, 16);

	assert_int_equal(secret_derive(s.key, 32, "control", 7, shorter, 16, &e), 0);
	assert_memory_equal(shorter, got, 16);
	assert_int_equal(secret_derive(s.key, 32, "data", 4, shorter, 16, &e), 0);
	assert_memory_not_equal(shorter, got, 16);
	secret_wipe(&s);
	static const struct secret zero;
	assert_memory_equal(&s, &zero, sizeof s);
}

int main(void)
{
	return unit_run(make_dir, remove_dir);
}
