/* The facts of a request. See request_facts.h. */
#include <stdio.h>

#include "lib/coll/agreement/request_facts.h"

int request_fact(const struct coll_request *r, const struct setting *s, struct intent *in,
                 struct err *err)
{
	char name[FACT_NAME];
	struct buf text;

	snprintf(name, sizeof name, "--%s", s->name);
	buf_init(&text, UINT32_MAX);
	const int ret = setting_text(s, r, &text, err);
	if (ret == 0)
		intent_add(in, name, (const char *)text.data);
	buf_release(&text);
	return ret;
}

int request_facts(const struct coll_request *r, struct intent *in, struct err *err)
{
	const uint64_t groups = request_groups(r->work, r->kind);
	char text[64];
	int ret = 0;

	/* A bench and a collective disagree. */
	snprintf(text, sizeof text, "%s%s%s", r->command, r->work == WORK_BENCH ? " " : "",
	         r->work == WORK_BENCH ? coll_name(r->kind) : "");
	intent_add(in, "collective", text);
	for (size_t i = 0; i < request_settings_len && ret == 0; i++)
		if (request_settings[i].agree & groups)
			ret = request_fact(r, &request_settings[i], in, err);
	return ret;
}
