# The source tarball and Debian's packages. The Makefile includes this file.
#
#   make dist             build $(BUILD)/collctl-VERSION.tar.gz
#   make deb              build the packages in $(BUILD)/deb; where no nvcc is, without collctl-cuda
#
# The same tree gives the same bytes: all times in them are that of the commit, or of debian/changelog.
# collctl-cuda has the same bytes only if it is built in the same folder: nvcc makes names of the sources' paths.

DIST = collctl-$(LIB_VERSION)
DEB = $(BUILD)/deb

.PHONY: dist deb
dist: $(BUILD)/$(DIST).tar.gz
$(BUILD)/$(DIST).tar.gz: FORCE
	@git rev-parse --is-inside-work-tree >/dev/null || { echo 'make dist: this is no git checkout, which has the list of files' >&2; exit 1; }
	@rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist/$(DIST)
	$(call say,DIST,$@)git ls-files -z | xargs -0 cp -P --parents -t $(BUILD)/dist/$(DIST) && echo '$(COMMIT)' >$(BUILD)/dist/$(DIST)/.commit && \
		tar -C $(BUILD)/dist --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
			--mtime=@$$(git log -1 --format=%ct) -c $(DIST) | gzip -9n >$@
	@rm -rf $(BUILD)/dist

# dpkg-buildpackage takes no variables but these; BUILD, for one, is another folder there.
deb: $(BUILD)/$(DIST).tar.gz
	tests/setup.sh package
	rm -rf $(DEB) && mkdir -p $(DEB) && tar -C $(DEB) -xzf $<
	cd $(DEB)/$(DIST) && env -i PATH="$$PATH" HOME="$$HOME" DEB_BUILD_OPTIONS="$$DEB_BUILD_OPTIONS" \
		NVCC='$(NVCC)' CUDA_ARCH='$(CUDA_ARCH)' V=1 \
		DEB_BUILD_PROFILES='$(if $(CUDA_LACKS),pkg.collctl.nocuda)' dpkg-buildpackage -us -uc -j$(shell nproc)
	rm -rf $(DEB)/$(DIST)
	@ls $(DEB)/*.deb
