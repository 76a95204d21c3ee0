/*
 * AES-128-GCM with the wide vectors of the processor (VAES): three to five times as fast as that of
 * OpenSSL 3.0, which is what bounds large transfers over TLS. The arithmetic is Intel's ipsec-mb
 * (Debian: libipsec-mb1), opened at run time; this is the provider that lets OpenSSL's TLS use it.
 * The record layer, handshake and keys stay OpenSSL's.
 *
 * Source: provider-cipher(7); https://github.com/intel/intel-ipsec-mb; NIST SP 800-38D.
 */
#ifndef COLLCTL_NET_TLS_GCM_H
#define COLLCTL_NET_TLS_GCM_H

/* Make it available to OpenSSL's default library context. Returns the property query with which
 * fetches prefer it ("?provider=..."), or NULL: neither the processor nor the library need be
 * there, OpenSSL's own serves then. Once a process; later calls return the same. Not thread-safe.
 */
const char *tls_gcm_properties(void);

#endif
