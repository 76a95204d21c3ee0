/*
 * AES-128-GCM with the wide vectors of the processor (VAES): three to five times as fast as that of
 * OpenSSL 3.0, which limits large transfers over TLS. Intel's ipsec-mb (Debian: libipsec-mb1),
 * opened at run time, does the arithmetic; this provider lets OpenSSL's TLS use it. OpenSSL keeps
 * the record layer, the handshake and the keys.
 *
 * Source: provider-cipher(7); https://github.com/intel/intel-ipsec-mb; NIST SP 800-38D.
 */
#ifndef COLLCTL_NET_TLS_GCM_H
#define COLLCTL_NET_TLS_GCM_H

/* Make it available to OpenSSL's default library context. Returns the property query with which
 * fetches prefer it ("?provider=..."), or NULL if the processor or the library does not support it;
 * then OpenSSL's implementation is used. Later calls return the same. Not thread-safe.
 */
const char *tls_gcm_properties(void);
/* The version of the library; NULL if OpenSSL's implementation is used. Not thread-safe. */
const char *tls_gcm_library(void);

#endif
