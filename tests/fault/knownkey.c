/* LD_PRELOAD: the two keys from which rank 0 derives those of pairs and those of inquiries are ones
 * that a test knows. The texts stay out of writable memory. */
int RAND_priv_bytes(unsigned char *buf, int num);

int RAND_priv_bytes(unsigned char *buf, int num)
{
	static const char pairs[] = "a key of pairs that the test has";
	static const char inquiries[] = "a key of inquiries that it has..";
	static int calls;
	const char *known = calls++ ? inquiries : pairs;
	for (int i = 0; i < num; i++)
		buf[i] = (unsigned char)known[i % (int)(sizeof pairs - 1)];
	return 1;
}
