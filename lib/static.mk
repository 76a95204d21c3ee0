# collctl as one file that needs no library of its host. The Makefile includes this file.
#
#   make static           build $(BUILD)/static/collctl; for another processor (cross.mk) $(BUILD)/static-PROCESSOR/collctl
#
# lib/static.sh compiles some of the libraries; the others are archives of Debian's packages.

STATIC = $(BUILD)/static$(addprefix -,$(CROSS_CPU))
STATIC_DEPS = $(STATIC)/libraries
STATIC_IPSEC_MB = $(if $(CROSS_CPU),,$(if $(wildcard /usr/include/intel-ipsec-mb.h),-lIPSec_MB))

.PHONY: static
static: $(STATIC_DEPS)/done
	+$(MAKE) --no-print-directory BUILD=$(STATIC) NVCC= SANITIZE= \
		CPPFLAGS='-DCOLLCTL_STATIC -DCOLLCTL_LINKED -I$(STATIC_DEPS)/include' CFLAGS='-O2 -ffunction-sections -fdata-sections' \
		LDFLAGS='-static-pie -s -Wl,--gc-sections,--no-warnings,-z,pack-relative-relocs -L$(STATIC_DEPS)/lib' \
		LDLIBS='-lcurl -lmicrohttpd -lzip -lz -lzstd $(STATIC_IPSEC_MB)' $(STATIC)/collctl

$(STATIC_DEPS)/done: lib/static.sh
	tests/setup.sh package
	$(PKG_CONFIG_ENV) CC='$(CC)' AR='$(AR)' RANLIB='$(CROSS)ranlib' lib/static.sh $(STATIC_DEPS) $(CROSS_HOST)
	touch $@
