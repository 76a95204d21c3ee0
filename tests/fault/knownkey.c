/* LD_PRELOAD: the key from which rank 0 derives those of pairs is one that a test knows. The text
 * stays out of writable memory. */
int RAND_priv_bytes(unsigned char *buf, int num);

int RAND_priv_bytes(unsigned char *buf, int num)
{
	static const char known[] = "a key of pairs that the test has";
	for (int i = 0; i < num; i++)
		buf[i] = (unsigned char)known[i % (int)(sizeof known - 1)];
	return 1;
}
