# collctl: build, install, demo and tests.
#
#   make          build build/collctl
#   make help     list all targets and variables

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
CFLAGS  ?= -O2 -g
V       ?= 0

include cross.mk

MANDIR  = $(PREFIX)/share/man
BASHDIR = $(PREFIX)/share/bash-completion/completions

# libcurl, libmicrohttpd, libzip and libzstd are opened at run time by the commands that need them: only
# their headers are used here.
PKGS = libssl libcrypto jansson libxxhash

WARN = -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
ALL_CPPFLAGS = -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. $(CPPFLAGS)
ALL_CFLAGS = -std=c17 $(WARN) -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIC \
	-fstack-protector-strong -pthread $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = -pthread -Wl,-z,relro -Wl,-z,now -Wl,--as-needed $(LDFLAGS)
ALL_LDLIBS = $(LDLIBS) $(PKG_LIBS) -ldl -lm

ifneq ($(SANITIZE),)
ALL_CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -DCOLLCTL_SANITIZED
ALL_LDFLAGS += -fsanitize=$(SANITIZE)
endif
ifneq ($(WERROR),)
ALL_CFLAGS += -Werror
endif

NO_BUILD_GOALS = demo dist deb static wheel deps deps-test deps-more deps-bench cuda-deps cuda-tools check check-more check-long check-bare check-faults compdb bench bench-memory bench-predict bench-auto bench-checkpoint bench-delta bench-fanout bench-progress bench-device bench-reach bench-hosts bench-networks clean format help
ifneq ($(filter-out $(NO_BUILD_GOALS),$(or $(MAKECMDGOALS),all)),)
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
endif

Q = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2);)

# One archive per layer, with the folders below it. The order is the direction of dependencies, users first (docs/ARCHITECTURE.md):
# the linker takes each archive once, so a layer that needs a later user does not link.
LAYERS = lib/coll lib/links lib/job lib/store lib/exec lib/net lib/price lib/proof lib/data algorithms lib/sched lib/crypto lib/base
sources = $(sort $(shell find $(1) -name '*.c'))
OBJ_cmd = $(patsubst %.c,$(BUILD)/%.o,$(call sources,cmd completions))
ARCHIVES = $(foreach l,$(LAYERS),$(BUILD)/$(subst /,-,$(l)).a)

.PHONY: all install uninstall clean format
all: $(BUILD)/collctl

$(BUILD)/collctl: $(OBJ_cmd) $(ARCHIVES)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(OBJ_cmd) $(ARCHIVES) $(ALL_LDLIBS)

define archive
$(BUILD)/$(subst /,-,$(1)).a: $(patsubst %.c,$(BUILD)/%.o,$(call sources,$(1)))
	$$(call say,AR,$$@)rm -f $$@; $$(AR) rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call archive,$(l))))

# The compiler and the flags are a dependency of every object: a changed flag rebuilds. Before the
# first object is made, and after each change, the tools and headers must be there.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS)' | cmp -s - $@ || { \
		CC='$(CC)' CROSS='$(CROSS_CPU)' CPPFLAGS='$(CPPFLAGS) $(PKG_CFLAGS)' tests/setup.sh check && \
		echo '$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS)' > $@; }
.PHONY: FORCE

# What `collctl version` prints as the commit: in the tarball of `make dist` from .commit.
COMMIT = $(if $(wildcard .git),$(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null),$(shell cat .commit 2>/dev/null))
$(BUILD)/commit: FORCE
	@mkdir -p $(@D); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
$(BUILD)/cmd/version.o: $(BUILD)/commit
$(BUILD)/cmd/version.o: private ALL_CPPFLAGS += -DCOLLCTL_COMMIT='"$(shell cat $(BUILD)/commit)"'

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The kernels are loops to be vectorised: -O3, and no care for floating-point exception flags, which
# nobody reads (it changes no result, but lets a select replace a branch).
KERNELS = reduce_integer reduce_float reduce_complex reduce_f16c convert scale average joint stats delta kth planes slerp q8
$(KERNELS:%=$(BUILD)/lib/data/kernels/%.o): private ALL_CFLAGS += -O3 -fno-trapping-math

-include $(shell find $(BUILD) \( -name sysroot -o -name libraries -o -name deb \) -prune -o -type f -name '*.d' -print 2>/dev/null)

# Unit tests: one program per tests/unit/test_*.c, linked with the command without main(), every layer and cmocka.
$(BUILD)/cmd.a: $(filter-out $(BUILD)/cmd/main.o,$(OBJ_cmd))
	$(call say,AR,$@)rm -f $@; $(AR) rcs $@ $^
# MODEL: what collectives mean, for the tests of schedules and executor and for the simulation; model/answers prints
# what it says.
MODEL = $(BUILD)/tests/model/collective_model.o
UNIT = $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
# cmocka gives every test a state, which few need. Tests are compiled once and run once: to optimise them takes longer than it
# saves, but for those that compute themselves.
UNIT_COMPUTES = conn exec exec_parts hosts joint mutants reduce
$(BUILD)/tests/unit/%.o: private ALL_CFLAGS += -Wno-unused-parameter
$(filter-out $(UNIT_COMPUTES:%=$(BUILD)/tests/unit/test_%.o),$(UNIT:$(BUILD)/unit/%=$(BUILD)/tests/unit/%.o)): private ALL_CFLAGS += -O0
$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(MODEL) $(BUILD)/cmd.a $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/cmd.a $(ARCHIVES) -lcmocka $(ALL_LDLIBS)
# GnuTLS is the other end in one of them, which is skipped without it.
$(BUILD)/tests/unit/test_tls_gnutls.o: private ALL_CPPFLAGS += $(shell $(PKG_CONFIG) --exists gnutls && echo -DCOLLCTL_WITH_GNUTLS; $(PKG_CONFIG) --cflags gnutls 2>/dev/null)
$(BUILD)/unit/test_tls_gnutls: private ALL_LDLIBS += $(shell $(PKG_CONFIG) --libs gnutls 2>/dev/null)
.PHONY: unit bench-reduce bench-join
# The kernels' speed: build/bench/reduce_bench [name]; a join's cost (docs/scale.md): build/bench/join_bench RANKS.
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(ARCHIVES) $(ALL_LDLIBS)
bench-reduce: $(BUILD)/bench/reduce_bench
	$<
bench-join: $(BUILD)/bench/join_bench
	$< 4096
# The program as a hostile rank.
$(BUILD)/fault/hostile_rank: $(OBJ_cmd) $(BUILD)/tests/fault/hostile_rank.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -Wl,--wrap=mesh_open,--wrap=mesh_settle,--wrap=job_round -o $@ $(filter %.o,$^) $(ARCHIVES) $(ALL_LDLIBS)
$(BUILD)/model/answers: $(BUILD)/tests/model/answers.o $(MODEL) $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(ALL_LDLIBS)
unit: $(UNIT) $(BUILD)/model/answers $(BUILD)/toys/collctl $(BUILD)/fault/hostile_rank $(BUILD)/bench/delay_line
.SECONDARY:

include tests/toys/toys.mk

include lib/lib.mk
include lib/static.mk
include cuda/standin.mk
include install.mk
include packages.mk
include python/wheel.mk
include cuda/cuda.mk
include tests/fuzz/fuzz.mk
include tests/sim/sim.mk

clean:
	rm -rf $(BUILD)

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cc')

include tests/tests.mk
