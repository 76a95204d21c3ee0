/* LD_PRELOAD: the session key that rank 0 draws is one that a test knows. The text stays out of
 * writable memory. */
int RAND_priv_bytes(unsigned char *buf, int num);

int RAND_priv_bytes(unsigned char *buf, int num)
{
	static const char known[] = "a session key that the test knows";
	for (int i = 0; i < num; i++)
		buf[i] = (unsigned char)known[i % (int)(sizeof known - 1)];
	return 1;
}
