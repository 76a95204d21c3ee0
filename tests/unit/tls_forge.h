/*
 * An end of TLS 1.3 that sends what no honest one does: unchanged OpenSSL shakes hands, with the
 * pre-shared key, and the records after that are made here, of any type and content.
 */
#ifndef COLLCTL_TESTS_TLS_FORGE_H
#define COLLCTL_TESTS_TLS_FORGE_H

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/net/tls/tls.h"

#define FORGE_EXTRA    22 /* header, type and tag */
#define FORGE_IDENTITY "alice"

static const uint8_t forge_psk[TLS_KEY_BYTES] = "the key of both sides of a test";

struct forge {
	SSL_CTX *ctx;
	SSL *ssl;
	bool client;
	uint8_t secret[32], key[16], iv[12]; /* of its records */
	uint64_t sequence;
};

static int forge_find(void *ctx, const uint8_t *identity, size_t len, uint8_t out[TLS_KEY_BYTES])
{
	(void)ctx;
	if (len != strlen(FORGE_IDENTITY) || memcmp(identity, FORGE_IDENTITY, len) != 0)
		return -1;
	memcpy(out, forge_psk, TLS_KEY_BYTES);
	return 0;
}

static SSL_SESSION *forge_session(SSL *ssl)
{
	static const unsigned char aes[2] = {0x13, 0x01};
	SSL_SESSION *s = SSL_SESSION_new();
	SSL_SESSION_set1_master_key(s, forge_psk, TLS_KEY_BYTES);
	SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, aes));
	SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
	return s;
}

static int forge_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
                     SSL_SESSION **session)
{
	(void)md;
	*session = forge_session(ssl);
	*id = (const unsigned char *)FORGE_IDENTITY;
	*len = strlen(FORGE_IDENTITY);
	return 1;
}

static int forge_accept(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
	(void)id, (void)len;
	*session = forge_session(ssl);
	return 1;
}

static void forge_keep(const SSL *ssl, const char *line)
{
	struct forge *f = SSL_get_app_data(ssl);
	const char *label = f->client ? "CLIENT_TRAFFIC_SECRET_0 " : "SERVER_TRAFFIC_SECRET_0 ";
	size_t n;
	if (strncmp(line, label, strlen(label)) == 0)
		OPENSSL_hexstr2buf_ex(f->secret, sizeof f->secret, &n, strrchr(line, ' ') + 1, 0);
}

/* False: OpenSSL lacks something. */
static bool forge_init(struct forge *f, bool client)
{
	*f = (struct forge){.ctx = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method()),
	                    .client = client};
	if (!f->ctx || !SSL_CTX_set_min_proto_version(f->ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(f->ctx, "TLS_AES_128_GCM_SHA256") ||
	    !SSL_CTX_set1_groups_list(f->ctx, "X25519"))
		return false;
	SSL_CTX_set_num_tickets(f->ctx, 0);
	SSL_CTX_set_psk_use_session_callback(f->ctx, forge_use);
	SSL_CTX_set_psk_find_session_callback(f->ctx, forge_accept);
	SSL_CTX_set_keylog_callback(f->ctx, forge_keep);
	f->ssl = SSL_new(f->ctx);
	if (!f->ssl)
		return false;
	SSL_set_app_data(f->ssl, f);
	if (client)
		SSL_set_connect_state(f->ssl);
	else
		SSL_set_accept_state(f->ssl);
	return true;
}

static void forge_release(struct forge *f)
{
	SSL_free(f->ssl);
	SSL_CTX_free(f->ctx);
}

/* HKDF-Expand-Label of at most 32 bytes with an empty context (RFC 8446, 7.1). */
static void forge_expand(const uint8_t secret[32], const char *label, uint8_t *out, uint8_t n)
{
	uint8_t info[64], block[32];
	size_t len = 6 + strlen(label);
	info[0] = 0;
	info[1] = n;
	info[2] = (uint8_t)len;
	memcpy(info + 3, "tls13 ", 6);
	memcpy(info + 9, label, strlen(label));
	info[3 + len] = 0;     /* of the context */
	info[3 + len + 1] = 1; /* the first block */
	HMAC(EVP_sha256(), secret, 32, info, len + 5, block, NULL);
	memcpy(out, block, n);
}

static void forge_keys(struct forge *f)
{
	forge_expand(f->secret, "key", f->key, sizeof f->key);
	forge_expand(f->secret, "iv", f->iv, sizeof f->iv);
	f->sequence = 0;
}

/* The handshake is over. */
static void forge_begin(struct forge *f)
{
	forge_keys(f);
}

/* After a KeyUpdate. */
static void forge_update(struct forge *f)
{
	uint8_t next[32];
	forge_expand(f->secret, "traffic upd", next, sizeof next);
	memcpy(f->secret, next, sizeof next);
	forge_keys(f);
}

/* A record of @n bytes in @out, which has room for n + FORGE_EXTRA: its length. */
static size_t forge_record(struct forge *f, uint8_t type, const void *text, size_t n, uint8_t *out)
{
	size_t len = n + FORGE_EXTRA - 5;
	uint8_t nonce[12];
	int got;
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	memcpy(nonce, f->iv, sizeof nonce);
	for (int i = 0; i < 8; i++)
		nonce[11 - i] ^= (uint8_t)(f->sequence >> 8 * i);
	f->sequence++;
	out[0] = 23;
	out[1] = out[2] = 3;
	out[3] = (uint8_t)(len >> 8);
	out[4] = (uint8_t)len;
	EVP_EncryptInit_ex(c, EVP_aes_128_gcm(), NULL, f->key, nonce);
	EVP_EncryptUpdate(c, NULL, &got, out, 5);
	if (n)
		EVP_EncryptUpdate(c, out + 5, &got, text, (int)n);
	EVP_EncryptUpdate(c, out + 5 + n, &got, &type, 1);
	EVP_EncryptFinal_ex(c, out + 6 + n, &got);
	EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, 16, out + 6 + n);
	EVP_CIPHER_CTX_free(c);
	return n + FORGE_EXTRA;
}

#endif
