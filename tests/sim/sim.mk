# The simulation of whole jobs: the command's objects and all libraries, with the calls of libc that
# wrap.h lists answered by tests/sim.

.PHONY: sim
SIM_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/sim/*.c)) $(MODEL)
SIM_WRAPPED := $(shell sed -n 's/^WRAP.[^,]*, \([a-z0-9_]*\),.*/\1/p' tests/sim/wrap.h)
SIM_WRAPS = $(SIM_WRAPPED:%=-Wl,--wrap=%)

# The product as one object, with its variables in sections of their own: each process has a copy. Calls between its
# files are resolved here, so those that the simulation takes are, too.
SIM_LD = $(LD) -r $(SIM_WRAPPED:%=--wrap=%)
SIM_SECTIONS = --rename-section .data=product_data --rename-section .bss=product_bss
SIM_PRODUCT = $(filter-out $(BUILD)/cmd/main.o $(BUILD)/cmd/run/retry.o,$(OBJ_cmd)) $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(LAYERS)))
$(BUILD)/sim/product.o: $(SIM_PRODUCT) tests/sim/wrap.h
	@mkdir -p $(@D)
	$(call say,LD,$@)$(SIM_LD) -o $@ $(filter %.o,$^)
	$(Q)$(OBJCOPY) $(SIM_SECTIONS) $@

$(BUILD)/sim/sim: $(SIM_OBJECTS) $(BUILD)/sim/product.o tests/sim/wrap.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(SIM_WRAPS) -o $@ $(SIM_OBJECTS) $(BUILD)/sim/product.o $(ALL_LDLIBS)
sim: $(BUILD)/sim/sim

# The simulation with a bug in the product, to see that it is found: bugs/NAME.patch is applied to a copy.
.PHONY: sim-bugs
SIM_BUGS = $(patsubst tests/sim/bugs/%.patch,$(BUILD)/sim/bugs/%/sim,$(wildcard tests/sim/bugs/*.patch))
$(BUILD)/sim/bugs/%/sim: tests/sim/bugs/%.patch $(BUILD)/sim/sim
	@rm -rf $(@D); mkdir -p $(@D)
	$(call say,BUG,$*)set -e; file=$$(sed -n 's,^+++ b/,,p' $<); \
	cp $$file $(@D)/patched.c; patch -s $(@D)/patched.c $<; \
	$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -c -o $(@D)/patched.o $(@D)/patched.c; \
	$(SIM_LD) -o $(@D)/product.o $(@D)/patched.o $$(printf '%s\n' $(SIM_PRODUCT) | grep -vx "$(BUILD)/$${file%.c}.o"); \
	$(OBJCOPY) $(SIM_SECTIONS) $(@D)/product.o; \
	$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(SIM_WRAPS) -o $@ $(SIM_OBJECTS) $(@D)/product.o $(ALL_LDLIBS)
sim-bugs: $(SIM_BUGS)
