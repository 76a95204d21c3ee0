# The stand-in for a GPU (cuda/standin.c), for tests. The Makefile includes this file.
STANDIN = $(BUILD)/collctl-standin.so
unit: $(STANDIN)
.PHONY: standin
standin: $(STANDIN)
$(STANDIN): $(BUILD)/cuda/standin.o $(ARCHIVES)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -Wl,--exclude-libs,ALL -o $@ $< -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(ALL_LDLIBS)
