/* The bytes of each message, as lib/net/PROTOCOL.md has them: they change only with PROTO_VERSION.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hex.h"
#include "lib/coll/agreement/claims.h"
#include "lib/coll/agreement/offer.h"
#include "lib/coll/agreement/terms.h"
#include "lib/job/failed_links.h"
#include "lib/job/proto.h"
#include "tests/unit/unit.h"

static void put_presence(struct buf *b)
{
	const struct presence p = {.host = "nodea",
	                           .addr = "192.0.2.1",
	                           .host_id = "0123456789abcde",
	                           .input = "in.npy",
	                           .output = "out.npy",
	                           .has_input = true,
	                           .finds_root = true,
	                           .root = "nodeb",
	                           .age = 93600};
	presence_encode(&p, b);
}

static void put_welcome(struct buf *b)
{
	const struct welcome w = {.rank = 3, .coordinator = -1, .root = 65535, .host = "nodea"};
	welcome_encode(&w, b);
}

static void put_joined(struct buf *b)
{
	const struct joined j = {.here = 3, .size = 4, .by_host = true, .names = "nodea, nodeb"};
	joined_encode(&j, b);
}

static void put_intent(struct buf *b)
{
	static struct intent in = {.subject = "in.npy",
	                           .table = "tensors",
	                           .memory = 1ull << 40,
	                           .ninputs = 3,
	                           .streams = 4,
	                           .data_addr = "[2001:db8::7]:7766"};
	in.nfacts = 0;
	in.details = view_of("3,4 and 5", 9);
	intent_add(&in, "dtype", "f32");
	intent_add(&in, "shape", "(3, 4)");
	intent_encode(&in, b);
}

static void put_plan(struct buf *b)
{
	struct plan p = {.algorithm = "ring_chunked",
	                 .dtype = 11,
	                 .windows = 1000000,
	                 .streams = 64,
	                 .total_inputs = 1ull << 33,
	                 .memory = UINT64_MAX,
	                 .trace = true,
	                 .host_cpus = 96,
	                 .session = "fedcba987654321",
	                 .details = view_of("rows", 4)};
	plan_encode(&p, b);
}

static void put_roster(struct buf *b)
{
	const struct rank_place p = {
	        .rank = 4, .addr = ":7766", .host = "nodea", .key = "the key of this pair"};
	int host[] = {0, 1, 1, 0, 2};
	const struct roster r = {.size = 5, .host = host, .hosts = 3};
	roster_encode(&r, b);
	rank_place_encode(&p, b);
	int came[] = {0, 2}, same[] = {0, -1, 0};
	const struct roster some = {.size = 3, .came = came, .ncame = 2, .host = same, .hosts = 1};
	roster_encode(&some, b);
}

static void put_error(struct buf *b)
{
	struct err e = {.code = ERR_INPUT, .rank = 2, .subject = 5, .text = "x.npy: no space left"};
	snprintf(e.host, sizeof e.host, "nodeb");
	err_encode(&e, PHASE_COMMIT, b);
	e.rank = ERR_RANK_SELF;
	err_encode(&e, PHASE_JOIN, b);
}

static void put_vote(struct buf *b)
{
	const struct vote v = {
	        .has_digest = true,
	        .digest = "0123456789abcde",
	        .has_table = true,
	        .work = {.rank = -1, .on = 9, .most = 1, .busy = 2, .total = 1ull << 60}};
	vote_encode(&v, b);
	workload_encode(&(struct workload){.rank = 7, .on = 1, .most = 3}, b);
}

static void put_beats(struct buf *b)
{
	const struct beat beat = {PHASE_RUN, 1ull << 50, UINT64_MAX, 1ull << 49};
	const struct pace none = {-1, PHASE_RUN, PACE_DONE, 0},
	                  slowest = {65535, PHASE_COMMIT, 250000, 77};
	beat_encode(&beat, b);
	pace_encode(&none, b);
	pace_encode(&slowest, b);
}

static void put_links(struct buf *b)
{
	char long_why[200];
	memset(long_why, 'y', sizeof long_why);
	long_why[sizeof long_why - 1] = '\0';
	link_encode(1, 3, LINK_TIMED_OUT, "no answer for 5 s", b);
	link_encode(65535, 0, LINK_TLS, long_why, b);
}

/* ---- the agreement ---- */

static struct listed_file listed[] = {{.name = "a/b", .bytes = 7, .mode = 0640, .mtime = -5},
                                      {.name = "a/bc", .mode = MODE_NONE}};
static struct listed_file folders[] = {{.name = "", .mode = 0700}, {.name = "a", .mode = 0555}};
static struct listed_file log_file = {.name = "a.log", .bytes = 5, .mode = 0600};
static struct rank_files logs = {.files = {.format = &format_raw,
                                           .folder = true,
                                           .tree = true,
                                           .files = &log_file,
                                           .nfiles = 1},
                                 .host = "node1"};

static void put_offer_with(struct buf *b, struct offer_content content,
                           const struct offer_form *form)
{
	static const uint64_t places[] = {7, 1ull << 63};
	struct buf claims;
	buf_init(&claims, 4096);
	claims_put(&claims, "out.npy", places, 2);
	const struct offer o = {.weights = 0.5,
	                        .weighted = true,
	                        .order = 42,
	                        .reads = 43,
	                        .codes = true,
	                        .link = {1ull << 34, 1ull << 35, NETWORK_TOLD, 1ull << 33, 0},
	                        .claims = view_of(claims.data, claims.len),
	                        .content = content};
	offer_put(b, &o, form);
	buf_release(&claims);
}

static void put_empty_offer(struct buf *b)
{
	put_offer_with(b, (struct offer_content){0}, &(struct offer_form){.size = 3});
}

static void put_offered_arrays(struct buf *b)
{
	uint64_t cut[3] = {5, 0, 2};
	struct offered_array arrays[] = {
	        {.name = "a.npy",
	         .info = {.format = &format_npy, .dtype = DTYPE_F32, .ndim = 2, .shape = {7, 4}},
	         .counts = cut},
	        {.name = "b.npy",
	         .info = {.format = &format_npy, .fortran = true, .dtype = DTYPE_I8, .ndim = 0}}};
	struct offer_content c = {.has = OFFER_ARRAYS, .arrays = arrays, .narrays = 2};
	put_offer_with(b, c, &(struct offer_form){.size = 3, .names = true});
	c.narrays = 1;
	c.gathered = &logs;
	put_offer_with(b, c, &(struct offer_form){.size = 3, .gathered = true});
}

static void put_offered_files(struct buf *b)
{
	const struct offer_content c = {.has = OFFER_FILES,
	                                .files = {.format = &format_raw,
	                                          .folder = true,
	                                          .tree = true,
	                                          .files = listed,
	                                          .nfiles = 2,
	                                          .folders = folders,
	                                          .nfolders = 2}};
	put_offer_with(b, c, &(struct offer_form){.size = 3});
}

static void put_terms(struct buf *b)
{
	uint64_t rows[3] = {1, 2, 3}, same[3] = {9, 9, 9}, from[3] = {3, 2, 1};
	bool dropped[] = {false, true};
	struct vector_terms v[] = {{"ring", DTYPE_F64, 7, rows, 0, from},
	                           {"direct", DTYPE_F32, 1, same, 0, NULL}};
	struct rank_files gathered[] = {logs, logs, logs};
	struct terms t = {.divisor = 1.5,
	                  .weighted = true,
	                  .keeps_order = true,
	                  .piece = 65536,
	                  .clones = true,
	                  .dropped = dropped,
	                  .root = view_of("root", 4),
	                  .vectors = v,
	                  .nvectors = 2,
	                  .gathered = gathered};
	terms_put(b, &t, &(struct terms_form){3, 2, true, true, false, false});
	t.nvectors = 1;
	terms_put(b, &t, &(struct terms_form){3, 2, false, false, true, false});
}

static void put_joint_terms(struct buf *b)
{
	uint64_t inputs[3] = {2, 1, 4};
	bool dropped[] = {false};
	struct vector_terms v = {"direct", DTYPE_F32, 1, NULL, 0, NULL};
	struct terms t = {.divisor = 7,
	                  .dropped = dropped,
	                  .root = view_of("", 0),
	                  .vectors = &v,
	                  .nvectors = 1,
	                  .inputs = inputs};
	terms_put(b, &t, &(struct terms_form){3, 1, false, false, false, true});
	t.inputs = NULL;
	t.inputs_each = 3;
	terms_put(b, &t, &(struct terms_form){3, 1, false, false, false, true});
}

/* ---- */

static const struct {
	const char *name;
	void (*put)(struct buf *);
	const char *hex;
} golden[] = {
        {"PRESENT", put_presence,
         "05006e6f64656109003139322e302e322e31303132333435363738396162636465000600696e2e6e"
         "707907006f75742e6e7079010105006e6f646562a06d0100"},
        {"WELCOME", put_welcome, "03000000ffffffffffff000005006e6f646561"},
        {"JOINED", put_joined, "0300000004000000010c006e6f6465612c206e6f646562"},
        {"INTENT", put_intent,
         "0205006474797065030066333205007368617065060028332c2034290600696e2e6e707907007465"
         "6e736f72730000000000010000030000000400000012005b323030313a6462383a3a375d3a373736"
         "3609000000332c3420616e642035"},
        {"plan", put_plan,
         "0c0072696e675f6368756e6b65640b40420f00400000000000000002000000ffffffffffffffff01"
         "600000006665646362613938373635343332310004000000726f7773"},
        {"ROSTER", put_roster,
         "0500000000010000000000000100000001000000000000000200000000000400000005003a373736"
         "3605006e6f646561746865206b6579206f6620746869732070616972000000000000000000000000"
         "03000000010501000000000100"},
        {"errors", put_error,
         "030002000000031400782e6e70793a206e6f207370616365206c65667405006e6f64656205000300"
         "ffffffff001400782e6e70793a206e6f207370616365206c65667405006e6f6465620500"},
        {"VOTE, VERDICT", put_vote,
         "013031323334353637383961626364650001ffffffff090100000000000000020000000000000000"
         "000000000000100700000001030000000000000000000000000000000000000000000000"},
        {"BEAT", put_beats,
         "020000000000000400ffffffffffffffff0000000000000200ffffffff0240420f00000000000000"
         "0000ffff00000390d003004d00000000000000"},
        {"LINKS", put_links,
         "01000000030000000311006e6f20616e7377657220666f7220352073ffff000000000000087f0079"
         "79797979797979797979797979797979797979797979797979797979797979797979797979797979"
         "79797979797979797979797979797979797979797979797979797979797979797979797979797979"
         "79797979797979797979797979797979797979797979797979797979797979797979797979797979"
         "797979797979"},
        {"an empty offer", put_empty_offer,
         "000000000000e03f012a000000000000002b00000000000000010000000004000000000000000800"
         "000003000000000200000000000000000000001d00000007006f75742e6e70790200000007000000"
         "00000000000000000000008000"},
        {"offered arrays", put_offered_arrays,
         "000000000000e03f012a000000000000002b00000000000000010000000004000000000000000800"
         "000003000000000200000000000000000000001d00000007006f75742e6e70790200000007000000"
         "00000000000000000000008001020000000500612e6e7079010b0207000000000000000400000000"
         "000000030000000500000000000000000000000000000002000000000000000500622e6e70798101"
         "0000000000000000000000e03f012a000000000000002b0000000000000001000000000400000000"
         "0000000800000003000000000200000000000000000000001d00000007006f75742e6e7079020000"
         "00070000000000000000000000000000800101000000010b02070000000000000004000000000000"
         "000300000005000000000000000000000000000000020000000000000005006e6f64653102020000"
         "00000100000000000500612e6c6f6780010000000000000000050000000000000000000000"},
        {"offered files", put_offered_files,
         "000000000000e03f012a000000000000002b00000000000000010000000004000000000000000800"
         "000003000000000200000000000000000000001d00000007006f75742e6e70790200000007000000"
         "0000000000000000000000800202020200000000000000c001000000000000000000000100616d01"
         "00000000000000000200000000000300612f62a001fbffffffffffffff0700000000000000030001"
         "006300800000000000000000000000000000000000000000"},
        {"terms", put_terms,
         "000000000000f83f01010000010001010000000100000004000000726f6f7402000000040072696e"
         "670c0700000000010000000000000002000000000000000300000000000000010300000000000000"
         "0200000000000000010000000000000006006469726563740b010000000109000000000000000000"
         "000000000000f83f01010000010001010000000100000004000000726f6f7401000000040072696e"
         "670c070000000005006e6f6465310202000000000100000000000500612e6c6f6780010000000000"
         "00000005000000000000000000000005006e6f6465310202000000000100000000000500612e6c6f"
         "678001000000000000000005000000000000000000000005006e6f64653102020000000001000000"
         "00000500612e6c6f6780010000000000000000050000000000000000000000"},
        {"terms of a joint operation", put_joint_terms,
         "0000000000001c400000000000000000000000000000000100000006006469726563740b01000000"
         "00000200000000000000010000000000000004000000000000000000000000001c40000000000000"
         "0000000000000000000100000006006469726563740b0100000000010300000000000000"},
};

TEST(messages_have_their_bytes)
{
	for (size_t i = 0; i < LENGTH(golden); i++) {
		struct buf b;
		buf_init(&b, 1u << 20);
		golden[i].put(&b);
		assert_false(b.failed);
		char *hex = malloc(2 * b.len + 1);
		assert_non_null(hex);
		hex_text(b.data, b.len, hex);
		if (strcmp(hex, golden[i].hex) != 0)
			fail_msg("%s has the bytes %s", golden[i].name, hex);
		free(hex);
		buf_release(&b);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
