# The manual pages and the completions, made from the command's own tables, what installs them, and the site of all documents.
# The Makefile includes this file.

# Debian's zsh reads packages' completions from vendor-completions, and its users' from site-functions.
ZSHDIR  = $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d

COMMANDS = $(shell sed -nE 's/^\t\{"([a-z-]+)", .*/\1/p' cmd/commands.c)
MANPAGES = $(BUILD)/man/collctl.1 $(COMMANDS:%=$(BUILD)/man/collctl-%.1)
JSON_PAGE = $(BUILD)/man/collctl-json.5
SCHEMA = $(BUILD)/collctl.schema.json
COMPLETIONS = $(BUILD)/completions/collctl.bash $(BUILD)/completions/collctl.zsh $(BUILD)/completions/collctl.fish

all: $(MANPAGES) $(JSON_PAGE) $(SCHEMA) $(COMPLETIONS)

$(BUILD)/man/collctl.1: man/collctl.1.in $(BUILD)/collctl
	@mkdir -p $(@D)
	$(call say,MAN,$@)$(EMULATOR) $(BUILD)/collctl help --mdoc >$@.mdoc && \
		sed -e '/^@GENERATED@$$/{r $@.mdoc' -e 'd;}' $< >$@.new && \
		rm $@.mdoc && mv $@.new $@

# A command's page is generated around its hand-written part.
$(BUILD)/man/collctl-%.1: man/collctl-%.1.in $(BUILD)/collctl
	@mkdir -p $(@D)
	$(call say,MAN,$@)$(EMULATOR) $(BUILD)/collctl help --mdoc $* >$@.mdoc && \
		sed -e '/^@FRAGMENT@$$/{r $<' -e 'd;}' $@.mdoc >$@.new && \
		rm $@.mdoc && mv $@.new $@

$(JSON_PAGE): man/collctl-json.5.in $(BUILD)/collctl
	@mkdir -p $(@D)
	$(call say,MAN,$@)$(EMULATOR) $(BUILD)/collctl help --mdoc json >$@.mdoc && \
		sed -e '/^@FIELDS@$$/{r $@.mdoc' -e 'd;}' $< >$@.new && rm $@.mdoc && mv $@.new $@

$(SCHEMA): $(BUILD)/collctl
	$(call say,JSON,$@)$(EMULATOR) $(BUILD)/collctl help --json-schema >$@.new && mv $@.new $@

$(BUILD)/completions/collctl.%: $(BUILD)/collctl
	@mkdir -p $(@D)
	$(call say,COMPL,$@)$(EMULATOR) $(BUILD)/collctl help --completions $* >$@.new && mv $@.new $@

# The documents as HTML.
.PHONY: site
site: $(MANPAGES) $(JSON_PAGE)
	$(call say,SITE,$(BUILD)/site/index.html)docs/site/site.py $(BUILD)/site $^ man/collctl.3 && docs/site/links.py $(BUILD)/site

LIBDIR ?= $(PREFIX)/lib

install: $(BUILD)/collctl $(MANPAGES) $(JSON_PAGE) $(SCHEMA) $(COMPLETIONS) $(LIBS)
	install -D -m 755 $(BUILD)/collctl $(DESTDIR)$(PREFIX)/bin/collctl
	if [ -f $(BUILD)/collctl-cuda.so ]; then install -D -m 755 $(BUILD)/collctl-cuda.so $(DESTDIR)$(PREFIX)/lib/collctl/collctl-cuda.so; fi
	install -d $(DESTDIR)$(MANDIR)/man1
	install -m 644 $(MANPAGES) $(DESTDIR)$(MANDIR)/man1
	install -D -m 644 $(JSON_PAGE) $(DESTDIR)$(MANDIR)/man5/collctl-json.5
	install -D -m 644 $(SCHEMA) $(DESTDIR)$(PREFIX)/share/collctl/collctl.schema.json
	install -D -m 644 man/collctl.3 $(DESTDIR)$(MANDIR)/man3/collctl.3
	install -D -m 644 lib/collctl.h $(DESTDIR)$(PREFIX)/include/collctl.h
	install -D -m 644 $(BUILD)/libcollctl.a $(DESTDIR)$(LIBDIR)/libcollctl.a
	install -D -m 755 $(BUILD)/$(SONAME) $(DESTDIR)$(LIBDIR)/$(SONAME).$(LIB_VERSION)
	ln -sf $(SONAME).$(LIB_VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libcollctl.so
	sed 's|^prefix=.*|prefix=$(PREFIX)|; s|^libdir=.*|libdir=$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' $(BUILD)/collctl.pc >$(BUILD)/collctl.pc.install
	install -D -m 644 $(BUILD)/collctl.pc.install $(DESTDIR)$(LIBDIR)/pkgconfig/collctl.pc
	install -D -m 644 $(BUILD)/completions/collctl.bash $(DESTDIR)$(BASHDIR)/collctl
	install -D -m 644 $(BUILD)/completions/collctl.zsh $(DESTDIR)$(ZSHDIR)/_collctl
	install -D -m 644 $(BUILD)/completions/collctl.fish $(DESTDIR)$(FISHDIR)/collctl.fish

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/lib/collctl/collctl-cuda.so
	rm -f $(DESTDIR)$(MANDIR)/man5/collctl-json.5 $(DESTDIR)$(PREFIX)/share/collctl/collctl.schema.json
	rm -f $(DESTDIR)$(MANDIR)/man3/collctl.3 $(DESTDIR)$(PREFIX)/include/collctl.h $(DESTDIR)$(LIBDIR)/libcollctl.a $(DESTDIR)$(LIBDIR)/libcollctl.so* \
		$(DESTDIR)$(LIBDIR)/pkgconfig/collctl.pc
	rm -f $(DESTDIR)$(PREFIX)/bin/collctl $(addprefix $(DESTDIR)$(MANDIR)/man1/,$(notdir $(MANPAGES))) \
		$(DESTDIR)$(BASHDIR)/collctl $(DESTDIR)$(ZSHDIR)/_collctl $(DESTDIR)$(FISHDIR)/collctl.fish
