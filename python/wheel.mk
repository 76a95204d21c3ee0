# The wheel for pip: the program and the package of Python over libcollctl. The Makefile includes this file.
#
#   make wheel            build $(BUILD)/wheel/collctl-VERSION-py3-none-manylinux_2_N_PROCESSOR.whl
#
# The program and the library link the C library dynamically, for names of hosts and for the plug-in, and contain
# the other libraries (lib/static.mk); Python has an OpenSSL of its own, so none of their symbols are visible. N is the
# minor version of glibc that the two need.

WHEEL = $(BUILD)/wheel$(addprefix -,$(CROSS_CPU))
WHEEL_ELF = $(WHEEL)/build/collctl $(WHEEL)/build/$(SONAME)
# In this folder the linker finds archives alone, and so no shared libraries in those after it.
WHEEL_ARCHIVES = $(WHEEL)/archives
WHEEL_LIBRARIES = ssl crypto jansson xxhash z zstd $(STATIC_IPSEC_MB:-l%=%)

.PHONY: wheel
wheel: $(STATIC_DEPS)/done
	rm -rf $(WHEEL_ARCHIVES) $(WHEEL)/*.whl && mkdir -p $(WHEEL_ARCHIVES)
	for l in $(WHEEL_LIBRARIES); do \
		[ ! -f $(STATIC_DEPS)/lib/lib$$l.a ] || continue; \
		file=$$($(CC) -print-file-name=lib$$l.a); \
		[ -f "$$file" ] || { echo "make wheel: lib$$l.a is missing" >&2; exit 1; }; \
		ln -s "$$file" $(WHEEL_ARCHIVES); \
	done
	+$(MAKE) --no-print-directory BUILD=$(WHEEL)/build NVCC= SANITIZE= \
		CPPFLAGS='-DCOLLCTL_LINKED -I$(abspath $(STATIC_DEPS))/include' \
		LDFLAGS='-s -Wl,--gc-sections,--exclude-libs,ALL,-Map=$$@.map -L$(WHEEL_ARCHIVES) -L$(STATIC_DEPS)/lib' \
		LDLIBS='-lcurl -lmicrohttpd -lzip -lz -lzstd $(STATIC_IPSEC_MB)' $(WHEEL_ELF)
	READELF=$(CROSS)readelf python3 python/wheel.py --version $(LIB_VERSION) --output $(WHEEL) \
		--own $(WHEEL)/build $(WHEEL_ELF:%=--map %.map) $(WHEEL_ELF)
