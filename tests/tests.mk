# Set-up, demo, tests and benchmarks. The goals that install packages do so before pkg-config or the
# compiler is asked for anything, and build in a make of their own.

.PHONY: help compdb tidy deps deps-test deps-more deps-bench demo check check-more check-long check-bare check-faults check-sim bench bench-memory bench-predict bench-auto bench-checkpoint bench-delta bench-fanout bench-progress bench-device bench-reach bench-hosts bench-networks

PARTS = commands faults units asan-commands asan-faults asan-units tsan-commands tsan-faults tsan-units \
	fuzz-files fuzz-wire bare

help:
	@echo 'make                  build $(BUILD)/collctl, the manual page and the completions'
	@echo 'make install          install them (uninstall: remove them)'
	@echo 'make deb              build the packages for Debian in $(BUILD)/deb (one for GPUs needs nvcc)'
	@echo 'make static           build $(BUILD)/static/collctl, one file that needs no library of its host'
	@echo 'make wheel            build the wheel for pip in $(BUILD)/wheel: the program and the package of Python'
	@echo 'make site             make the documents and manual pages a site, $(BUILD)/site/index.html'
	@echo 'make dist             make the source tarball, $(BUILD)/collctl-VERSION.tar.gz'
	@echo 'make deps             install the packages to build and run (deps-test, deps-more, deps-bench: others, too)'
	@echo 'make cuda-deps        install the CUDA toolkit in $(BUILD)/cuda-toolkit, for $(BUILD)/collctl-cuda.so'
	@echo 'make cuda-tools       install its disassembler in $(BUILD)/cuda-tools, for make check-gpu'
	@echo 'make demo             install missing packages, build, run an example job in demo/'
	@echo 'make clean            remove $(BUILD)/'
	@echo
	@echo 'make check            install what the tests need, build, run the tests of the product: at most 10 minutes'
	@echo 'make check-more       what developers check besides, at most 15 minutes: sanitizers, clang, aarch64,'
	@echo '                      fuzzers, planted bugs, the plug-in for GPUs with the CUDA toolkit, formats'
	@echo 'make check-long       run all long tests, for hours; PART=NAME runs one part, at most 45 minutes;'
	@echo '                      PART=i/n runs the i-th of n shares of these parts:'
	@echo '                      $(PARTS)'
	@echo 'make check-bare       run the demo, make check and make check-more in an empty Debian 12 (root, debootstrap);'
	@echo '                      HERE=LOG compares with what the two printed here'
	@echo 'make check-faults     run whole jobs with random faults (SEED=1, JOBS=1000; OF=copies: a kind)'
	@echo 'make check-sim        simulate whole jobs, a cluster in one thread (SEED=1, JOBS=1000)'
	@echo 'make sim              build the simulation: $(BUILD)/sim/sim (sim-bugs: a build with each planted bug)'
	@echo 'make check-gpu        test the GPU plug-in: its kernels on the CPU; on a GPU if there is one, with whole'
	@echo '                      jobs, and with compute-sanitizer if it is there'
	@echo 'make gpu-first-run    on a machine with a GPU that nothing has run on: versions, tests, speeds, torch, in ten minutes;'
	@echo '                      $(BUILD)/gpu-first-run/page.md and results.json say what was found'
	@echo 'make unit             build the unit tests: $(BUILD)/unit/test_*'
	@echo 'make fuzz             build the fuzzers (fuzz-NAME: build and run one, FUZZ_SECONDS=10)'
	@echo 'make examples         build the examples of libcollctl: $(BUILD)/examples/'
	@echo 'make format           clang-format every source file'
	@echo 'make compdb           write compile_commands.json, for editors'
	@echo 'make tidy             clang-tidy every source file of the program (.clang-tidy)'
	@echo
	@echo 'make bench            compare whole jobs with Open MPI'
	@echo 'make bench-memory     compare collectives in memory with Open MPI'
	@echo 'make bench-predict    compare predicted with measured times over shaped links (root)'
	@echo 'make bench-auto       compare the choice of auto with the fastest algorithm'
	@echo 'make bench-device     measure how copies to and from devices overlap, over the stand-in, and compare'
	@echo '                      --device cuda with --device cpu'
	@echo 'make bench-reach      compare check with iperf3 and ping, and run -H with ssh (root)'
	@echo 'make bench-join       measure what joins of many ranks cost their coordinator'
	@echo 'make bench-hosts      compare ranks of one host with cp and Open MPI, and hosts over shaped links'
	@echo 'make bench-networks   measure allreduces between hosts whose links differ, against the bound; jobs of hosts that are'
	@echo '                      far from each other, against iperf3, the fastest algorithm, and round trips (root)'
	@echo 'make bench-fanout     compare broadcasts of files, the first time and again, with rsync, scp and clush; and'
	@echo '                      a result that is written once and cloned with one that all ranks write (root)'
	@echo 'make bench-checkpoint compare averaging checkpoints with numpy + mpi4py and with cp; and'
	@echo '                      read the formats of torch, and compare with torch (if $$(PYTHON) has it), numpy and cat'
	@echo 'make bench-delta      measure the coding of a file as a difference to an old version, and compare with zstd and'
	@echo '                      xdelta3; of OLD= and NEW= with elements of WIDTH=2 bytes, or else of drawn weights and of'
	@echo '                      a model that it trains'
	@echo 'make bench-progress   measure how long --progress stands, and how true its time left is'
	@echo 'make bench-gpu        measure the GPU plug-in: reductions, copies, how the parts of whole jobs overlap; and'
	@echo '                      compare whole jobs with torch, if $$(PYTHON) has it (needs a GPU)'
	@echo 'make bench-reduce     measure the reduction kernels'
	@echo
	@echo 'Variables:'
	@echo '  PREFIX=/usr/local   where to install; DESTDIR= a folder in front of it; LIBDIR=PREFIX/lib'
	@echo '  BUILD=build         the folder for all that make builds'
	@echo '  NVCC=               the CUDA compiler, for $(BUILD)/collctl-cuda.so (default: nvcc on PATH, or of cuda-deps)'
	@echo '  CUDA_PLUGIN=        check-gpu, bench-gpu, gpu-first-run: the plug-in to test, instead of $(BUILD)/collctl-cuda.so'
	@echo '  CC=cc               the compiler; CFLAGS, CPPFLAGS, LDFLAGS as usual'
	@echo '  SYSROOT=            a folder with the libraries of another processor, for CC=aarch64-linux-gnu-gcc (tests/sysroot.sh)'
	@echo '  SANITIZE=           build with sanitizers, such as address,undefined (with BUILD=build-asan)'
	@echo '  WERROR=             1: warnings are errors'
	@echo '  COLLCTL=            check-faults: the program to test, instead of $(BUILD)/collctl'
	@echo '  V=0                 1: print every command'

deps:
	@tests/setup.sh build
deps-test:
	@tests/setup.sh test
deps-more:
	@tests/setup.sh more
deps-bench:
	@tests/setup.sh bench

compdb:
	@+MAKE='$(MAKE)' tests/compdb.sh all unit sim >compile_commands.json || { rm -f compile_commands.json; exit 1; }
# For minutes; without what clang-tidy says of the warnings that it does not show.
tidy: compdb
	@command -v clang-tidy >/dev/null || { echo "make tidy: clang-tidy is missing; 'make deps-more' installs it" >&2; exit 1; }
	@git ls-files 'algorithms/*.c' 'cmd/*.c' 'completions/*.c' 'lib/*.c' | xargs -P $(shell nproc) -n 4 clang-tidy --quiet >$(BUILD)/tidy.log 2>&1; \
		rc=$$?; grep -vE '^[0-9]+ warnings? ' $(BUILD)/tidy.log; exit $$rc

# Make what follows on all processors, unless -j says otherwise.
BUILD_IT = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

demo:
	@tests/setup.sh demo
	@+$(BUILD_IT) all
	@COLLCTL=$(BUILD)/collctl tests/demo.sh

check: deps-test
	@tests/run.sh
check-more: deps-more
	-@$(if $(CUDA_LACKS),:,$(MAKE) -s cuda-tools)
	@tests/run.sh --more
# HERE=LOG: what `make check` and `make check-more` printed on this machine, to be compared with.
check-bare:
	@tests/bare.sh $(if $(HERE),--here $(HERE))
# Each part takes at most 45 minutes on two processors (tests/run.sh); without PART all, one after another.
# PART=i/n: the i-th of n shares of all.
# The parts that run the commands have torchrun, too.
check-long:
	@tests/setup.sh $(if $(filter faults units bare %-faults %-units fuzz-%,$(PART)),more,launchers)
	@COLLCTL_LONG=1 tests/run.sh $(if $(PART),--part $(PART))

# A job's seed is SEED, SEED + 1, ...: one that went wrong runs again with its own seed and JOBS=1.
SEED ?= 1
JOBS ?= 1000
COLLCTL ?= $(BUILD)/collctl
check-faults: deps-test
	@+$(if $(filter $(BUILD)/collctl,$(COLLCTL)),$(BUILD_IT) all)
	@COLLCTL=$(abspath $(COLLCTL)) tests/fault/jobs.sh --seed $(SEED) --jobs $(JOBS) $(if $(OF),--of $(OF))

# The same of the simulation; one job runs in one process, for a debugger. TRACE=1 prints all that happens. INSIDERS=n: in n of
# 1,000 jobs a rank sends what it likes.
check-sim: sim
	@$(BUILD)/sim/sim --seed $(SEED) --jobs $(JOBS) --workers $(shell nproc) $(if $(INSIDERS),--insiders $(INSIDERS)) $(if $(filter 1,$(TRACE)),--trace)

BENCH = COLLCTL=$(BUILD)/collctl PATH="/usr/bin:/usr/sbin:$$PATH" python3 tests/bench
bench: deps-bench
	@+$(BUILD_IT) all
	@$(BENCH)/bench.py

bench-memory bench-predict bench-auto bench-reach bench-hosts: bench-%: deps-bench
	@+$(BUILD_IT) all
	@$(BENCH)/$*.py

# A device of the stand-in copies 100 MB a second in each direction: that is the longest part.
bench-device: deps-bench
	@+$(BUILD_IT) all standin
	@COLLCTL_STANDIN_RATE=100000000 $(BENCH)/gpu.py --plugin $(STANDIN) --only overlap --mib 64
	@$(BENCH)/device_ratio.py --plugin $(STANDIN)

bench-networks: deps-bench
	@+$(BUILD_IT) all $(BUILD)/bench/delay_line
	@$(BENCH)/networks.py
	@$(BENCH)/far.py

bench-fanout: deps-bench
	@+$(BUILD_IT) all $(BUILD)/bench/delta_bench
	@DELTA_BENCH=$(abspath $(BUILD)/bench/delta_bench) $(BENCH)/fanout.py
	@$(BENCH)/clones.py

bench-checkpoint: deps-bench
	@+$(BUILD_IT) all
	@$(BENCH)/checkpoint.py
	@$(BENCH)/formats.py

bench-progress:
	@+$(BUILD_IT) all
	@$(BENCH)/progress.py

bench-delta: deps-bench
	@+$(BUILD_IT) $(BUILD)/bench/delta_bench
	@DELTA_BENCH=$(BUILD)/bench/delta_bench $(BENCH)/delta.py $(if $(WIDTH),--width $(WIDTH)) $(if $(OLD),'$(OLD)' '$(NEW)')
