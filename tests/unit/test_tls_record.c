/*
 * Records of TLS 1.3: the bytes of RFC 8448, both suites, with ipsec-mb and without it, and nothing
 * that was tampered with.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/net/tls/tls_gcm.h"
#include "lib/net/tls/tls_record.h"
#include "tests/unit/unit.h"

#define AES    0x1301
#define CHACHA 0x1303

/* alerts */
#define UNEXPECTED 10
#define BAD_MAC    20
#define OVERFLOW   22

/* RFC 8448, section 3: client_application_traffic_secret_0, 50 bytes of data, close_notify. */
static const uint8_t rfc_secret[TLS_SECRET] = {0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d,
                                               0xc0, 0x5a, 0xf8, 0x88, 0x9b, 0xce, 0x65, 0x52,
                                               0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf, 0x00, 0x87,
                                               0xf7, 0x92, 0xeb, 0xb7, 0xc1, 0x75, 0x04, 0xa5};
static const uint8_t rfc_data[72] = {
        0x17, 0x03, 0x03, 0x00, 0x43, 0xa2, 0x3f, 0x70, 0x54, 0xb6, 0x2c, 0x94, 0xd0, 0xaf, 0xfa,
        0xfe, 0x82, 0x28, 0xba, 0x55, 0xcb, 0xef, 0xac, 0xea, 0x42, 0xf9, 0x14, 0xaa, 0x66, 0xbc,
        0xab, 0x3f, 0x2b, 0x98, 0x19, 0xa8, 0xa5, 0xb4, 0x6b, 0x39, 0x5b, 0xd5, 0x4a, 0x9a, 0x20,
        0x44, 0x1e, 0x2b, 0x62, 0x97, 0x4e, 0x1f, 0x5a, 0x62, 0x92, 0xa2, 0x97, 0x70, 0x14, 0xbd,
        0x1e, 0x3d, 0xea, 0xe6, 0x3a, 0xee, 0xbb, 0x21, 0x69, 0x49, 0x15, 0xe4};
static const uint8_t rfc_alert[24] = {0x17, 0x03, 0x03, 0x00, 0x13, 0xc9, 0x87, 0x27,
                                      0x60, 0x65, 0x56, 0x66, 0xb7, 0x4d, 0x7f, 0xf1,
                                      0x15, 0x3e, 0xfd, 0x6d, 0xb6, 0xd0, 0xb0, 0xe3};

static void init(struct tls_keys *k, unsigned suite, bool sends)
{
	struct err err = {0};
	assert_int_equal(tls_keys_init(k, suite, rfc_secret, sends, &err), 0);
}

static void update(struct tls_keys *k)
{
	struct err err = {0};
	assert_int_equal(tls_keys_update(k, &err), 0);
}

TEST(the_bytes_are_those_of_the_rfc)
{
	uint8_t text[50], record[100], type;
	struct tls_keys k;
	size_t n;
	for (uint8_t i = 0; i < sizeof text; i++)
		text[i] = i;
	for (int disabled = 0; disabled < 2; disabled++) {
		tls_gcm_disabled = disabled;
		init(&k, AES, true);
		assert_int_equal(tls_record_seal(&k, TLS_TYPE_DATA, text, 50, record), 0);
		assert_memory_equal(record, rfc_data, sizeof rfc_data);
		assert_int_equal(tls_record_seal(&k, TLS_TYPE_ALERT, "\1\0", 2, record), 0);
		assert_memory_equal(record, rfc_alert, sizeof rfc_alert);
		tls_keys_release(&k);

		init(&k, AES, false);
		assert_int_equal(tls_record_length(rfc_data), sizeof rfc_data);
		assert_int_equal(tls_record_open(&k, rfc_data, sizeof rfc_data, record, &n, &type),
		                 0);
		assert_int_equal(type, TLS_TYPE_DATA);
		assert_int_equal(n, 50);
		assert_memory_equal(record, text, 50);
		assert_int_equal(
		        tls_record_open(&k, rfc_alert, sizeof rfc_alert, record, &n, &type), 0);
		assert_int_equal(type, TLS_TYPE_ALERT);
		assert_int_equal(n, 2);
		tls_keys_release(&k);
	}
	tls_gcm_disabled = false;
}

/* Every size around the edges of blocks, with a new key now and then, also in its place. */
TEST(records_return_as_they_were)
{
	static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 255, 256, 4096, 16383, 16384};
	static uint8_t text[TLS_RECORD_TEXT], record[TLS_RECORD_MAX], back[TLS_RECORD_TEXT];
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (uint8_t)(i * 7 + i / 256);
	for (int c = 0; c < 3; c++) {
		struct tls_keys out, in;
		tls_gcm_disabled = c == 1;
		init(&out, c == 2 ? CHACHA : AES, true);
		init(&in, c == 2 ? CHACHA : AES, false);
		for (size_t i = 0; i < 4 * LENGTH(sizes); i++) {
			size_t n = sizes[i / 4], got;
			uint8_t type = 0, *to = i % 2 ? record + TLS_RECORD_HEADER : back;
			assert_int_equal(tls_record_seal(&out, TLS_TYPE_HANDSHAKE, text, n, record),
			                 0);
			int len = tls_record_length(record);
			assert_int_equal(len, n + TLS_RECORD_EXTRA);
			assert_int_equal(tls_record_open(&in, record, (size_t)len, to, &got, &type),
			                 0);
			assert_int_equal(got, n);
			assert_int_equal(type, TLS_TYPE_HANDSHAKE);
			assert_memory_equal(to, text, n);
			if (i % 5 == 4) {
				update(&out);
				update(&in);
			}
		}
		tls_keys_release(&out);
		tls_keys_release(&in);
	}
	tls_gcm_disabled = false;
}

/* A peer may add zeros behind the type (RFC 8446, 5.4). */
TEST(padding_is_removed)
{
	uint8_t text[] = {'a', 0, 'b', TLS_TYPE_ALERT, 0, 0, 0}, record[100], back[100], type;
	struct tls_keys out, in;
	size_t n;
	init(&out, AES, true);
	init(&in, AES, false);
	/* The type of the record becomes one more zero. */
	assert_int_equal(tls_record_seal(&out, (enum tls_type)0, text, sizeof text, record), 0);
	assert_int_equal(
	        tls_record_open(&in, record, sizeof text + TLS_RECORD_EXTRA, back, &n, &type), 0);
	assert_int_equal(n, 3);
	assert_int_equal(type, TLS_TYPE_ALERT);
	assert_memory_equal(back, "a\0b", 3);
	/* only zeros: no type */
	assert_int_equal(tls_record_seal(&out, (enum tls_type)0, "\0\0", 2, record), 0);
	assert_int_equal(tls_record_open(&in, record, 2 + TLS_RECORD_EXTRA, back, &n, &type), 0);
	assert_int_equal(n, 0);
	assert_int_equal(type, 0);
	tls_keys_release(&out);
	tls_keys_release(&in);
}

/* Each bit of a record counts, and the order of records; of what is refused no byte is given. */
TEST(what_was_tampered_with_is_refused)
{
	uint8_t record[60 + TLS_RECORD_EXTRA], back[60], zeros[60] = {0}, type;
	struct tls_keys out, in;
	size_t n;
	for (int c = 0; c < 3; c++) {
		tls_gcm_disabled = c == 1;
		init(&out, c == 2 ? CHACHA : AES, true);
		assert_int_equal(tls_record_seal(&out, TLS_TYPE_DATA, rfc_data, 60, record), 0);
		for (size_t bit = 0; bit < 8 * sizeof record; bit++) {
			init(&in, c == 2 ? CHACHA : AES, false);
			memset(back, 1, sizeof back);
			record[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_equal(
			        tls_record_open(&in, record, sizeof record, back, &n, &type), -1);
			assert_memory_equal(back, zeros, sizeof back);
			record[bit / 8] ^= (uint8_t)(1u << bit % 8);
			tls_keys_release(&in);
		}
		init(&in, c == 2 ? CHACHA : AES, false);
		assert_int_equal(tls_record_open(&in, record, sizeof record, back, &n, &type), 0);
		/* again: it is not the next */
		assert_int_equal(tls_record_open(&in, record, sizeof record, back, &n, &type), -1);
		tls_keys_release(&in);
		/* with the next key */
		init(&in, c == 2 ? CHACHA : AES, false);
		update(&in);
		assert_int_equal(tls_record_open(&in, record, sizeof record, back, &n, &type), -1);
		tls_keys_release(&in);
		tls_keys_release(&out);
	}
	tls_gcm_disabled = false;
}

TEST(lengths_have_bounds)
{
	static const struct {
		uint8_t header[5];
		int len;
	} cases[] = {
	        {{23, 3, 3, 0, 17}, 22},           {{23, 3, 3, 0, 16}, -BAD_MAC},
	        {{23, 3, 3, 0, 0}, -BAD_MAC},      {{23, 3, 3, 0x40, 17}, TLS_RECORD_MAX},
	        {{23, 3, 3, 0x40, 18}, -OVERFLOW}, {{23, 3, 3, 255, 255}, -OVERFLOW},
	        {{22, 3, 3, 0, 17}, -UNEXPECTED},  {{21, 3, 3, 0, 17}, -UNEXPECTED},
	        {{20, 3, 3, 0, 17}, -UNEXPECTED},  {{23, 3, 1, 0, 17}, -UNEXPECTED},
	        {{23, 2, 3, 0, 17}, -UNEXPECTED},
	};
	for (size_t i = 0; i < LENGTH(cases); i++)
		assert_int_equal(tls_record_length(cases[i].header), cases[i].len);
}

TEST(another_suite_is_refused)
{
	struct tls_keys k;
	struct err err = {0};
	assert_int_equal(tls_keys_init(&k, 0x1302, rfc_secret, true, &err), -1);
	assert_non_null(strstr(err.text, "0x1302"));
	tls_keys_release(&k);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
