# The tools of a build for another processor. The Makefile includes this file.
#
#   make CC=aarch64-linux-gnu-gcc                    with the libraries of this machine's arm64 packages
#   make CC=aarch64-linux-gnu-gcc SYSROOT=FOLDER     with those in FOLDER (tests/sysroot.sh makes one)
#
# The compiler's prefix names the other tools. AR, LD, OBJCOPY and PKG_CONFIG name others. The program writes its manual pages
# and completions, which EMULATOR runs; EMULATOR= where the kernel runs it.

# aarch64-linux-gnu- of aarch64-linux-gnu-gcc-12 and of clang --target=aarch64-linux-gnu; empty for gcc and clang.
CROSS := $(shell echo '$(CC)' | sed -nE 's,.* --target=([^ ]+).*,\1-,p;t;s,^(.* )?([^ ]*-)(gcc|cc|clang)(-[0-9.]+)?( .*)?$$,\2,p')
# Its processor, if it is another than this machine's.
CROSS_CPU := $(filter-out $(shell uname -m),$(firstword $(subst -, ,$(notdir $(CROSS)))))

# tool VARIABLE NAME: of the same prefix, unless the variable is given
tool = $(if $(filter default undefined,$(origin $(1))),$(eval $(1) = $$(CROSS)$(2)))
$(call tool,AR,ar)
$(call tool,LD,ld)
$(call tool,OBJCOPY,objcopy)

ifneq ($(CROSS_CPU),)
CROSS_HOST = $(patsubst %-,%,$(notdir $(CROSS)))
# pkg-config sees the libraries of the other processor alone, also where Debian's aarch64-linux-gnu-pkg-config is not installed.
PKG_CONFIG_ENV = PKG_CONFIG_LIBDIR=$(SYSROOT)/usr/lib/$(CROSS_HOST)/pkgconfig:$(SYSROOT)/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(SYSROOT)
EMULATOR ?= $(firstword $(shell command -v qemu-$(CROSS_CPU) qemu-$(CROSS_CPU)-static) qemu-$(CROSS_CPU)) $(addprefix -L ,$(SYSROOT))
endif
PKG_CONFIG ?= $(PKG_CONFIG_ENV) pkg-config
ifneq ($(SYSROOT),)
override SYSROOT := $(abspath $(SYSROOT))
override CC := $(CC) --sysroot=$(SYSROOT)
endif
