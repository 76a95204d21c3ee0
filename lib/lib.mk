# libcollctl: what is below the command, behind lib/collctl.h. The Makefile includes this file.

SONAME = libcollctl.so.0
LIB_VERSION = $(shell sed -n 's/.*COLLCTL_VERSION "\(.*\)"/\1/p' lib/base/version.h)
LIB_OBJ = $(BUILD)/lib/collctl.o $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(LAYERS)))
LIBS = $(BUILD)/libcollctl.a $(BUILD)/$(SONAME) $(BUILD)/collctl.pc

all: $(LIBS)

# One object, in which only the names of lib/collctl.h are global.
$(BUILD)/libcollctl.a: $(LIB_OBJ)
	$(call say,AR,$@)rm -f $@ && $(LD) -r -o $@.o $(LIB_OBJ) && $(OBJCOPY) --localize-hidden $@.o && $(AR) rcs $@ $@.o && rm $@.o

$(BUILD)/$(SONAME): $(LIB_OBJ) lib/collctl.map
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -Wl,-soname,$(SONAME) \
		-Wl,--version-script=lib/collctl.map -o $@ $(LIB_OBJ) $(ALL_LDLIBS)

$(BUILD)/collctl.pc: lib/collctl.pc.in lib/base/version.h
	@mkdir -p $(@D)
	$(call say,GEN,$@)sed -e 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(LIB_VERSION)|' $< >$@

# The examples, as a program outside would build them.
EXAMPLES = $(BUILD)/examples/average
examples: $(EXAMPLES)
$(BUILD)/examples/%: examples/%.c $(BUILD)/libcollctl.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(CFLAGS) $(LDFLAGS) $(if $(SANITIZE),-fsanitize=$(SANITIZE)) -Wall -Wextra -Ilib -o $@ $< $(BUILD)/libcollctl.a -pthread $(ALL_LDLIBS)
.PHONY: examples
