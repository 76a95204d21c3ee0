# A toy in each table. build/toys/collctl is the program's own objects, the toys, and the tables
# compiled anew from one more row and theirs; the unit tests of a table link the same.

# toy NAME TABLE ROWS ROW FILE: the table's source and its list of rows, less .c and .h; the line; the
# toy, less .c
define toy
$(BUILD)/toys/$(3).h: $(3).h tests/toys/toys.mk
	@mkdir -p $$(@D)
	@{ echo '$(4)' && cat $$<; } >$$@
$(BUILD)/toys/$(2).o: $(2).c $(BUILD)/toys/$(3).h $(BUILD)/flags
	$$(call say,CC,$$@)$$(CC) -iquote $(BUILD)/toys $$(ALL_CPPFLAGS) $$(ALL_CFLAGS) -MMD -MP -c -o $$@ $$<
OBJ_toys += $(BUILD)/toys/$(2).o $(BUILD)/tests/toys/$(5).o
$(BUILD)/unit/test_$(1): $(BUILD)/toys/$(2).o $(BUILD)/tests/toys/$(5).o
endef
$(eval $(call toy,algorithm,algorithms/table,algorithms/rows,ALGORITHM(allreduce_star),algorithms/allreduce/star))
$(eval $(call toy,format,lib/data/formats/formats,lib/data/formats/format_rows,FORMAT(vec),lib/data/formats/format_vec))
$(eval $(call toy,transport,lib/net/transport,lib/net/transport_rows,TRANSPORT(mirror),lib/net/transport_mirror))
$(eval $(call toy,store_memory,lib/store/store,lib/store/store_rows,STORE(memory),lib/store/store_memory))

# A setting is a row alone: the toy is another name of --limit-rate.
SETTINGS = lib/coll/request/request_settings
$(BUILD)/toys/lib/coll/request/setting_rows.h: tests/toys/lib/coll/request/setting_row.h lib/coll/request/setting_rows.h
	@mkdir -p $(@D)
	@cat $^ >$@
$(BUILD)/toys/$(SETTINGS).o: $(SETTINGS).c $(BUILD)/toys/lib/coll/request/setting_rows.h $(BUILD)/flags
	$(call say,CC,$@)$(CC) -iquote $(BUILD)/toys $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
OBJ_toys += $(BUILD)/toys/$(SETTINGS).o

$(BUILD)/toys/collctl: $(OBJ_cmd) $(OBJ_toys) $(ARCHIVES)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(OBJ_cmd) $(OBJ_toys) $(ARCHIVES) $(ALL_LDLIBS)
