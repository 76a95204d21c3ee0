#include "lib/data/formats/foreign.h"

#include <stdbool.h>
#include <string.h>

#include "lib/data/files/input.h"

#define HEAD 4096    /* has the name of an archive's first member */
#define TAIL 0x10015 /* an archive's end: 22 bytes and a comment */

/* torch.save before 1.6: a pickle of this number comes first. */
static const char torch_magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";

static bool begins(const uint8_t *head, size_t n, const char *with, size_t len)
{
	return n >= len && memcmp(head, with, len) == 0;
}

/* A header of JSON that is as long as the first eight bytes say. */
static bool is_safetensors(const uint8_t *head, size_t n, uint64_t size)
{
	uint64_t len = 0;
	for (int i = 7; n > 9 && i >= 0; i--)
		len = len << 8 | head[i];
	return len >= 2 && len <= size - 8 && head[8] == '{' && (head[9] == '"' || head[9] == '}');
}

/* Has the archive of these last bytes an end? One that was cut short has none. */
static bool has_end(const uint8_t *tail, size_t n)
{
	return memmem(tail, n, "PK\5\6", 4) != NULL;
}

static int is_something(const char *path, const char *what, const char *fix, struct err *err)
{
	return err_set(err, ERR_INPUT, "%s: is %s: %s", path, what, fix);
}

#define OLD_PICKLE "a pickle, as torch.save wrote it before version 1.6"
#define SAVE_AGAIN "load it with torch and save it again"

/* Has an archive with these bytes an entry NAME/data.pkl? */
static bool names_pickle(const uint8_t *bytes, size_t n)
{
	return memmem(bytes, n, "/data.pkl", 9) != NULL;
}

static int check_tail(int fd, const char *path, uint64_t size, bool pickle, struct err *err)
{
	uint8_t tail[TAIL];
	const size_t n = size < TAIL ? (size_t)size : TAIL;
	if (input_pread(fd, path, tail, n, size - n, err))
		return -1;
	if (pickle || names_pickle(tail, n))
		return is_something(path, "a zip archive with a pickle, as torch.save writes it",
		                    "name it .pt, or give --format torch or raw", err);
	if (has_end(tail, n))
		return is_something(path, "a zip archive",
		                    "name it .npz if it holds arrays, or give --format npz or raw",
		                    err);
	return 0;
}

int foreign_check(int fd, const char *path, uint64_t size, struct err *err)
{
	uint8_t head[HEAD];
	const size_t n = size < HEAD ? (size_t)size : HEAD;
	if (input_pread(fd, path, head, n, 0, err))
		return -1;
	if (begins(head, n, "PK\3\4", 4))
		return check_tail(fd, path, size, names_pickle(head, n), err);
	if (begins(head, n, torch_magic, sizeof torch_magic - 1))
		return is_something(path, OLD_PICKLE, SAVE_AGAIN ", or give --format raw", err);
	if (begins(head, n, "\x93NUMPY", 6))
		return is_something(path, "a .npy file",
		                    "name it .npy, or give --format npy or raw", err);
	if (is_safetensors(head, n, size))
		return is_something(path, "a .safetensors file",
		                    "name it .safetensors, or give --format safetensors or raw",
		                    err);
	return 0;
}

int foreign_check_torch(int fd, const char *path, uint64_t size, struct err *err)
{
	uint8_t head[sizeof torch_magic - 1] = {0};
	const size_t n = size < sizeof head ? (size_t)size : sizeof head;
	if (input_pread(fd, path, head, n, 0, err))
		return -1;
	if (begins(head, n, "PK\3\4", 4))
		return 0;
	if (begins(head, n, torch_magic, sizeof head))
		return is_something(path, OLD_PICKLE, SAVE_AGAIN, err);
	if (n > 1 && head[0] == 0x80 && head[1] <= 5)
		return is_something(path, "a pickle without the archive of torch.save",
		                    "save it by torch.save", err);
	return is_something(path, "no zip archive, as torch.save writes it",
	                    "save it by torch.save, or name its format by --format", err);
}

bool foreign_is_torch(int fd, uint64_t size)
{
	struct err ignored = ERR_INIT;
	uint8_t head[HEAD];
	const size_t n = size < HEAD ? (size_t)size : HEAD;
	return input_pread(fd, "", head, n, 0, &ignored) == 0 && begins(head, n, "PK\3\4", 4) &&
	       names_pickle(head, n);
}
