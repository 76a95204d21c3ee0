/* The tables of fields (lib/base/fields.h) of all messages, with their names in
 * lib/net/PROTOCOL.md.
 */
#ifndef COLLCTL_TESTS_MESSAGE_TABLES_H
#define COLLCTL_TESTS_MESSAGE_TABLES_H

#include "lib/coll/agreement/offer.h"
#include "lib/coll/agreement/terms.h"
#include "lib/coll/files/clones.h"
#include "lib/exec/trace.h"
#include "lib/job/failed_links.h"
#include "lib/job/proto.h"

static const struct {
	const char *name;
	const struct message *message;
} tables[] = {
        {"WELCOME", &welcome_message},
        {"INTENT", &intent_message},
        {"fact", &fact_message},
        {"plan", &plan_message},
        {"place", &rank_place_message},
        {"BEAT of a rank", &beat_message},
        {"BEAT of the coordinator", &pace_message},
        {"VOTE", &vote_message},
        {"workload", &workload_message},
        {"PRESENT", &presence_message},
        {"JOINED", &joined_message},
        {"LINKS", &link_fault_message},
        {"event", &trace_event_message},
        {"offer", &offer_message},
        {"link", &network_found_message},
        {"terms", &terms_message},
        {"vector", &vector_terms_message},
        {"clone part", &clone_part_message},
        {"clone chain", &clone_chain_message},
};
#define TABLES (sizeof tables / sizeof *tables)

#endif
