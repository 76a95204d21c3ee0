# Set-up, demo, tests and benchmarks. The goals that install packages do so before pkg-config or the
# compiler is asked for anything, and build in a make of their own.

.PHONY: help deps deps-test deps-bench demo check check-long bench bench-memory bench-predict bench-auto bench-checkpoint

help:
	@echo 'make                  build $(BUILD)/collctl (CC=clang, SANITIZE=address,undefined, WERROR=1, V=1)'
	@echo 'make install          install it (PREFIX=$(PREFIX), DESTDIR=)'
	@echo 'make demo             install what is missing, build, show the main job in demo/'
	@echo 'make check            install what the tests need, build, run them'
	@echo 'make check-long       the same with the long runs'
	@echo 'make bench            compare whole jobs with Open MPI'
	@echo 'make bench-memory     compare collectives in memory with Open MPI'
	@echo 'make bench-predict    compare predicted with measured times over shaped links (root)'
	@echo 'make bench-auto       compare what auto takes with the fastest algorithm'
	@echo 'make bench-checkpoint compare averaging checkpoints with numpy + mpi4py and with cp'
	@echo 'make unit             build the unit tests only'
	@echo 'make deps             install the packages to build and run (deps-test, deps-bench: more)'
	@echo 'make format           clang-format every source file'
	@echo 'make clean            remove $(BUILD)/'

deps:
	@tests/setup.sh build
deps-test:
	@tests/setup.sh test
deps-bench:
	@tests/setup.sh bench

demo:
	@tests/setup.sh demo
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@COLLCTL=$(BUILD)/collctl tests/demo.sh

check: deps-test
	@tests/run.sh
check-long: deps-test
	@COLLCTL_LONG=1 tests/run.sh

bench: deps-bench
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@COLLCTL=$(BUILD)/collctl PATH="/usr/bin:$$PATH" python3 tests/bench/bench.py

bench-memory: deps-bench
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@COLLCTL=$(BUILD)/collctl PATH="/usr/bin:$$PATH" python3 tests/bench/memory.py

bench-predict: deps-bench
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@COLLCTL=$(BUILD)/collctl PATH="/usr/bin:/usr/sbin:$$PATH" python3 tests/bench/predict.py

bench-auto: deps-bench
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@COLLCTL=$(BUILD)/collctl PATH="/usr/bin:$$PATH" python3 tests/bench/auto.py

bench-checkpoint: deps-bench
	@+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@COLLCTL=$(BUILD)/collctl PATH="/usr/bin:$$PATH" python3 tests/bench/checkpoint.py
