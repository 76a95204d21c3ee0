/* Connections with each kind of TLS records. */
#ifndef COLLCTL_TESTS_UNIT_TLS_RECORDS_H
#define COLLCTL_TESTS_UNIT_TLS_RECORDS_H

#include <stdlib.h>

#include "lib/net/tls/tls.h"

/* @records: those of data, as COLLCTL_TLS_RECORDS names them, or NULL: a control link's. NULL: an
 * error. */
static inline struct tls *tls_with_records(const char *records)
{
	struct err err = {0};
	if (records)
		setenv("COLLCTL_TLS_RECORDS", records, 1);
	struct tls *tls = tls_new(&err);
	if (tls && records)
		tls_carry_data(tls);
	unsetenv("COLLCTL_TLS_RECORDS");
	return tls;
}

#endif
