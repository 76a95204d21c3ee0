# The stand-in for GPUs, for tests: the plug-in's code, compiled for the CPU, over a CUDA runtime of
# host memory (cuda/standin). It needs no CUDA. The Makefile includes this file.
STANDIN = $(BUILD)/collctl-standin.so
STANDIN_CXX = $(if $(findstring clang,$(CC)),clang++ $(filter --target=%,$(CC)),$(CROSS)g++) $(filter --sysroot=%,$(CC))
STANDIN_FLAGS = -std=c++20 $(if $(SANITIZE),-O1 -g1,-O2 -g) -I. -Icuda/standin -pthread -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
	-Wall -Wextra -Wshadow $(if $(WERROR),-Werror) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
STANDIN_OBJECTS = $(patsubst cuda/%,$(BUILD)/standin/%.o,$(wildcard cuda/*.cu) $(addprefix cuda/standin/,runtime.cc machine.cc conflicts.cc))
STANDIN_NCCL = $(BUILD)/collctl-standin-nccl.so

unit: standin
.PHONY: standin standin-force
standin: $(STANDIN) $(STANDIN_NCCL)

# NCCL is opened where COLLCTL_NCCL_PATH says, never the real one.
$(BUILD)/standin/nccl.cu.o: STANDIN_FLAGS += -DNCCL_LIBRARY='"(no NCCL)"'

$(BUILD)/standin/flags: standin-force
	@mkdir -p $(@D); echo '$(STANDIN_CXX) $(STANDIN_FLAGS)' | cmp -s - $@ || echo '$(STANDIN_CXX) $(STANDIN_FLAGS)' >$@
$(BUILD)/standin/%.o: cuda/% $(BUILD)/standin/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(STANDIN_CXX) $(STANDIN_FLAGS) -MMD -MP -c -o $@ -x c++ $<
$(STANDIN): $(STANDIN_OBJECTS)
	$(call say,LINK,$@)$(STANDIN_CXX) $(STANDIN_FLAGS) -shared -Wl,-z,defs -Wl,-soname,$(@F) -o $@ $^
$(STANDIN_NCCL): $(BUILD)/standin/standin/nccl.cc.o $(STANDIN)
	$(call say,LINK,$@)$(STANDIN_CXX) $(STANDIN_FLAGS) -shared -Wl,-z,defs -Wl,-rpath,$(abspath $(BUILD)) -o $@ $^

# The stand-in with a bug in the plug-in, to see that it is found: tests/gpu/bugs/NAME.patch is applied to a copy.
.PHONY: standin-bugs
STANDIN_BUGS = $(patsubst tests/gpu/bugs/%.patch,$(BUILD)/standin/bugs/%/collctl-standin.so,$(wildcard tests/gpu/bugs/*.patch))
$(BUILD)/standin/bugs/%/collctl-standin.so: tests/gpu/bugs/%.patch $(STANDIN) $(STANDIN_NCCL)
	@rm -rf $(@D); mkdir -p $(@D)
	$(call say,BUG,$*)set -e; file=$$(sed -n 's,^+++ b/,,p' $<); \
	cp $$file $(@D)/patched.cu; patch -s $(@D)/patched.cu $<; \
	$(STANDIN_CXX) $(STANDIN_FLAGS) -c -o $(@D)/patched.o -x c++ $(@D)/patched.cu; \
	$(STANDIN_CXX) $(STANDIN_FLAGS) -shared -Wl,-z,defs -Wl,-soname,$(@F) -o $@ $(@D)/patched.o \
		$$(printf '%s\n' $(STANDIN_OBJECTS) | grep -vx "$(BUILD)/standin/$${file#cuda/}.o")
standin-bugs: $(STANDIN_BUGS)
