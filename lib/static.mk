# collctl as one file that needs no library of its host. The Makefile includes this file.
#
#   make static           build $(BUILD)/static/collctl
#
# lib/static.sh compiles libcurl, libmicrohttpd and libzip; the other libraries are archives of Debian's packages.

STATIC = $(BUILD)/static
STATIC_DEPS = $(STATIC)/libraries
STATIC_IPSEC_MB = $(if $(wildcard /usr/include/intel-ipsec-mb.h),-lIPSec_MB)

.PHONY: static
static: $(STATIC_DEPS)/done
	+$(MAKE) --no-print-directory BUILD=$(STATIC) NVCC= SANITIZE= \
		CPPFLAGS='-DCOLLCTL_STATIC -I$(STATIC_DEPS)/include' CFLAGS='-O2 -ffunction-sections -fdata-sections' \
		LDFLAGS='-static-pie -s -Wl,--gc-sections,--no-warnings,-z,pack-relative-relocs -L$(STATIC_DEPS)/lib' \
		LDLIBS='-lcurl -lmicrohttpd -lzip -lz $(STATIC_IPSEC_MB)' $(STATIC)/collctl

$(STATIC_DEPS)/done: lib/static.sh
	tests/setup.sh package
	lib/static.sh $(STATIC_DEPS)
	touch $@
