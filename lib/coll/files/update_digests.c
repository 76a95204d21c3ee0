/* --update, --delta and --resume: digests of files and of their pieces. See update.h. */
#include "lib/coll/files/update.h"

#include <string.h>

#include "lib/base/offload.h"
#include "lib/base/xxh3.h"
#include "lib/coll/collective.h"
#include "lib/data/files/input.h"

void update_hash(const void *buf, uint64_t n, uint8_t *digest)
{
	XXH128_canonical_t c;
	XXH128_canonicalFromHash(&c, XXH3_128bits(buf, n));
	memcpy(digest, c.digest, DIGEST_BYTES);
}

int update_digest(int fd, const char *path, uint64_t at, uint64_t n, uint8_t *buf, uint8_t *digest,
                  struct err *err)
{
	if (offload_stopped(err) < 0 || input_pread(fd, path, buf, n, at, err) < 0)
		return -1;
	update_hash(buf, n, digest);
	return 0;
}

struct update_source update_source_of(const struct update *u, int fd, const char *path)
{
	struct update_source s = {.fd = fd, .path = path};
	digest_key_of(&u->cache, fd, &s.key);
	return s;
}

static bool is_cached(struct update *u, const struct update_source *s, uint64_t at, uint64_t n,
                      uint8_t *digest)
{
	if (!digest_cache_get(&u->cache, &s->key, at, n, digest))
		return false;
	u->cached += n;
	return true;
}

int update_digest_once(struct update *u, const struct update_source *s, uint64_t at, uint64_t n,
                       uint8_t *buf, uint8_t *digest, struct err *err)
{
	atomic_fetch_add(&u->compared, n);
	if (is_cached(u, s, at, n, digest))
		return 0;
	if (update_digest(s->fd, s->path, at, n, buf, digest, err) < 0)
		return -1;
	digest_cache_put(&u->cache, &s->key, s->fd, at, n, digest);
	return 0;
}

/* Each piece is entered, too: if the file is not as the root's, its pieces are compared next. */
static int add_pieces(struct update *u, const struct update_source *s, uint64_t bytes,
                      XXH3_state_t *state, uint8_t *buf, struct err *err)
{
	uint8_t piece[DIGEST_BYTES];
	for (uint64_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < UPDATE_PIECE ? bytes - at : UPDATE_PIECE;
		if (update_digest(s->fd, s->path, at, n, buf, piece, err) < 0)
			return -1;
		digest_cache_put(&u->cache, &s->key, s->fd, at, n, piece);
		atomic_fetch_add(&u->compared, n);
		XXH3_128bits_update(state, buf, n);
	}
	return 0;
}

int update_digest_file(struct update *u, const struct update_source *s, uint64_t bytes,
                       uint8_t *buf, uint8_t *digest, struct err *err)
{
	XXH128_canonical_t c;
	if (is_cached(u, s, 0, bytes, digest))
		return 0;
	XXH3_state_t *state = XXH3_createState();
	if (!state)
		return err_nomem(err, "a digest", 0);
	XXH3_128bits_reset(state);
	const int ret = add_pieces(u, s, bytes, state, buf, err);
	if (ret == 0) {
		XXH128_canonicalFromHash(&c, XXH3_128bits_digest(state));
		memcpy(digest, c.digest, DIGEST_BYTES);
		digest_cache_put(&u->cache, &s->key, s->fd, 0, bytes, digest);
	}
	XXH3_freeState(state);
	return ret;
}

int update_digest_input(struct update *u, const struct dataset_file *in, const char *path,
                        uint8_t *buf, uint8_t *digest, struct err *err)
{
	const int fd = dataset_file_open(in, err);
	const struct update_source source = update_source_of(u, fd, path);
	const int ret = fd < 0 ? -1 : update_digest_file(u, &source, in->size, buf, digest, err);
	dataset_file_close(in, fd);
	return ret;
}
