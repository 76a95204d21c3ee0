# Fuzzers: tests/fuzz/fuzz_NAME.c over the libraries, with clang's libFuzzer and sanitizers.
#
#   make fuzz                            build all of them
#   make fuzz-NAME [FUZZ_SECONDS=n]     build one and run it on its corpus
#
# The seeds are tests/fuzz/corpus/NAME; what is found new, and crashes, stay in the build folder.

FUZZ_CC ?= clang
FUZZ_SECONDS ?= 10
FUZZ_CFLAGS = -std=c17 $(WARN) -O1 -g1 -fno-omit-frame-pointer -DCOLLCTL_SANITIZED \
	-ffp-contract=off -pthread $(PKG_CFLAGS)
FUZZ_SANITIZE = -fno-sanitize-recover=undefined -fsanitize=address,undefined
FUZZ_SOURCES = $(call sources,$(LAYERS))
FUZZ_OBJECTS = $(patsubst %.c,$(BUILD)/fuzz/%.o,$(FUZZ_SOURCES))

$(BUILD)/fuzz/%.o: %.c tests/fuzz/fuzz.mk $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)$(FUZZ_CC) $(ALL_CPPFLAGS) $(FUZZ_CFLAGS) $(FUZZ_SANITIZE),fuzzer-no-link -MMD -MP -c -o $@ $<

$(BUILD)/fuzz/fuzz_%: $(BUILD)/fuzz/tests/fuzz/fuzz_%.o $(FUZZ_OBJECTS)
	$(call say,LINK,$@)$(FUZZ_CC) $(FUZZ_SANITIZE),fuzzer -pthread $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)

# The dictionary of those that read control messages, from the tables of fields.
$(BUILD)/fuzz/message_dict: $(BUILD)/fuzz/tests/fuzz/message_dict.o $(FUZZ_OBJECTS)
	$(call say,LINK,$@)$(FUZZ_CC) $(FUZZ_SANITIZE),fuzzer-no-link -pthread $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)

$(BUILD)/fuzz/messages.dict: $(BUILD)/fuzz/message_dict
	$(call say,GEN,$@)$< >$@

fuzz_dict = $(if $(filter agree coord frame job,$1),-dict=$(BUILD)/fuzz/messages.dict)

# A fuzzer of what a command reads links its files.
$(BUILD)/fuzz/fuzz_remote: $(addprefix $(BUILD)/fuzz/cmd/run/,remote_job.o remote_link.o)

.PHONY: fuzz
fuzz: $(BUILD)/fuzz/messages.dict $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

fuzz-%: $(BUILD)/fuzz/fuzz_% $(BUILD)/fuzz/messages.dict
	@mkdir -p $(BUILD)/fuzz/corpus/$*
	$(if $(filter 1,$(V)),,@)$< -max_total_time=$(FUZZ_SECONDS) -max_len=12000 -timeout=10 -print_final_stats=0 -verbosity=$(V) $(call fuzz_dict,$*) \
		-artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/corpus/$* $(wildcard tests/fuzz/corpus/$*)
