/* Files of a sink that become clones of those of another. See sink.h. */
#include <sys/stat.h>

#include "lib/data/files/sink_internal.h"

bool sink_may_clone(const struct sink *s)
{
	for (int i = 0; i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		if (f->is_stdout || f->packed || sink_keeps(f))
			return false;
	}
	return s->nfiles && !s->resume && !sink_stages(s);
}

void sink_defer(struct sink *s)
{
	s->deferred = true;
}

bool sink_has_clones(const struct sink *s, dev_t *dev)
{
	bool first = true;
	struct stat st;
	for (int i = 0; i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		if (sink_is_link(f))
			continue;
		if (fstat(f->out.fd, &st) || (!first && st.st_dev != *dev) ||
		    (first && !outfile_may_clone(&f->out)))
			return false;
		*dev = st.st_dev;
		first = false;
	}
	return !first;
}

void sink_hash(const struct sink *s, XXH3_state_t *hash)
{
	for (int i = 0; i < s->nfiles; i++) {
		const struct sink_file *f = &s->files[i];
		const uint64_t numbers[] = {f->size, f->head_len, (uint64_t)f->to,
		                            f->points_to != NULL, f->data ? f->data->n : 0};
		XXH3_128bits_update(hash, numbers, sizeof numbers);
		XXH3_128bits_update(hash, f->head, f->head_len);
		if (f->data)
			XXH3_128bits_update(hash, f->data->range,
			                    f->data->n * sizeof *f->data->range);
	}
}

void sink_await_clones(struct sink *s)
{
	s->awaits = true;
}

bool sink_awaits_clones(const struct sink *s)
{
	return s->awaits;
}

int sink_descriptor(const struct sink *s, int file)
{
	return sink_is_link(&s->files[file]) ? -1 : s->files[file].out.fd;
}

int sink_clone(struct sink *s, int file, int from, int *error, struct err *err)
{
	struct sink_file *f = &s->files[file];
	static const struct sparse no_holes;
	struct stat own, other;
	if (fstat(f->out.fd, &own) || fstat(from, &other))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine it", f->path);
	if (!S_ISREG(other.st_mode) || (uint64_t)other.st_size != f->size ||
	    other.st_dev != own.st_dev)
		return err_set(err, ERR_INTEGRITY,
		               "%s: to be cloned, another rank has passed what is no file of %llu "
		               "bytes on the same file system",
		               f->path, (unsigned long long)f->size);
	return outfile_clone(&f->out, from, f->size, f->data ? f->data : &no_holes, error, err);
}
