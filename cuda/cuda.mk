# The plug-in for NVIDIA GPUs, collctl-cuda.so, where the CUDA toolkit (12 or later) and g++ are. The
# Makefile includes this file.
#
#   make CUDA_ARCH=sm_90  machine code for that architecture alone, in a fifth of the time
#   make cuda-deps        install the toolkit 13 and NCCL in $(BUILD)/cuda-toolkit, from NVIDIA's packages on PyPI
#   make cuda-tools       install what prints machine code in $(BUILD)/cuda-tools, for tests/gpu/inspect.sh, unless it is there
#
# NVCC names another nvcc; NVCC= builds no plug-in. One of toolkit 12 makes a plug-in for drivers from version 525
# on, one of toolkit 13 for drivers from 580 on.

PYTHON ?= python3
CUDA_CXX ?= g++
CUDA_TOOLKIT = $(BUILD)/cuda-toolkit
CUDA_WHEELS = nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt nvidia-nvvm nvidia-nccl-cu13 nvidia-cuda-sanitizer-api
CUDA_TOOLS = nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
CUDA_PIP = $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile --upgrade --target

ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(lastword $(wildcard $(CUDA_TOOLKIT)/nvidia/cu*/bin/nvcc)) $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
endif
NVCC_MAJOR := $(if $(NVCC),$(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p'))
# Why the plug-in cannot be built.
ifneq ($(CROSS_CPU),)
CUDA_LACKS = it is built on the processor that it is for
else ifeq ($(NVCC),)
CUDA_LACKS = no nvcc (make cuda-deps installs one)
else ifneq ($(shell [ 0$(NVCC_MAJOR) -ge 12 ] && echo fine),fine)
CUDA_LACKS = $(NVCC) is not of CUDA 12 or later (make cuda-deps installs one, NVCC= names another)
else ifeq ($(shell command -v $(CUDA_CXX) 2>/dev/null),)
CUDA_LACKS = $(NVCC) needs $(CUDA_CXX)
endif

.PHONY: cuda-deps cuda-tools cuda-missing gpu-tests check-gpu bench-gpu gpu-first-run
# Of that compiler nvidia-cuda-nvcc-cu12 (12.9.86) contains ptxas and libnvvm.so alone.
CUDA_NO_12 = CUDA 12 cannot be installed from PyPI: nvidia-cuda-nvcc-cu12 lacks nvcc, cudafe++, cicc and fatbinary. Install it \
	from NVIDIA, or on Debian 13 nvidia-cuda-toolkit (12.4, in non-free), and name its nvcc: make NVCC=/usr/bin/nvcc
cuda-deps:
	$(if $(filter 12%,$(CUDA)),@echo '$(CUDA_NO_12)'; exit 1)
	@$(PYTHON) -m pip --version >/dev/null || { echo '$(PYTHON) has no pip (apt install python3-pip); PYTHON= names another'; exit 1; }
	@mkdir -p $(BUILD)
	$(CUDA_PIP) $(CUDA_TOOLKIT) $(CUDA_WHEELS) $(CUDA_TOOLS)
	@ls $(CUDA_TOOLKIT)/nvidia/cu*/bin/nvcc
cuda-tools:
	@tests/gpu/inspect.sh --tools $(BUILD) || { mkdir -p $(BUILD) && $(CUDA_PIP) $(BUILD)/cuda-tools $(CUDA_TOOLS); }

# Machine code for every major architecture from sm_75 on, and PTX of the last for those to come. The
# bits are those of the CPU: no fused products and sums, no flushed subnormals.
CUDA_ARCH ?= all-major
ifeq ($(NVCC_MAJOR) $(CUDA_ARCH),12 all-major) # that is from sm_50 on there
CUDA_CODES := $(filter $(shell $(NVCC) --list-gpu-code),sm_75 sm_80 sm_90 sm_100 sm_120)
CUDA_PTX := $(patsubst sm_%,compute_%,$(lastword $(CUDA_CODES)))
CUDA_TARGET := $(foreach c,$(CUDA_CODES),-gencode=arch=$(patsubst sm_%,compute_%,$c),code=$c) -gencode=arch=$(CUDA_PTX),code=$(CUDA_PTX)
else
CUDA_TARGET = -arch=$(CUDA_ARCH)
endif
CUDA_FLAGS = -std=c++20 -O3 $(CUDA_TARGET) -fmad=false -ftz=false -prec-div=true -Xptxas -v -I. -ccbin $(CUDA_CXX) \
	-Xcompiler -fPIC,-fvisibility=hidden,-ffp-contract=off,-Wall,-Wextra
CUDA_WERROR = $(if $(WERROR),-Werror all-warnings -Xcompiler -Werror)
# NVIDIA's packages on PyPI have their libraries in lib, not in lib64.
CUDA_LDFLAGS = -cudart static -L$(dir $(NVCC))../lib -Xlinker --exclude-libs=ALL,--as-needed,-z,relro,-z,now

# The tests' NCCL: that of cuda-deps, unless COLLCTL_NCCL_PATH names one or the system has one.
NCCL_FOUND = $(wildcard $(CUDA_TOOLKIT)/nvidia/nccl/lib/libnccl.so.2)
NCCL_ENV = $(if $(NCCL_FOUND),COLLCTL_NCCL_PATH=$${COLLCTL_NCCL_PATH:-$(abspath $(NCCL_FOUND))})

# CUDA_PLUGIN names another plug-in for check-gpu and bench-gpu, such as $(STANDIN).
CUDA_PLUGIN = $(BUILD)/collctl-cuda.so
CUDA_OBJECTS = $(patsubst %.cu,$(BUILD)/%.o,$(wildcard cuda/*.cu))

ifneq ($(CUDA_LACKS),)
all: cuda-missing
cuda-missing:
	@echo '  --      $(BUILD)/collctl-cuda.so is not built: $(CUDA_LACKS)'
else ifeq ($(SANITIZE),)
all: $(BUILD)/collctl-cuda.so
endif

.PHONY: cuda-force
$(BUILD)/cuda/flags: cuda-force
	@mkdir -p $(@D); echo '$(NVCC) $(CUDA_FLAGS)' | cmp -s - $@ || echo '$(NVCC) $(CUDA_FLAGS)' >$@

# The same names of kernels in each build; nvcc 12 has no such option.
CUDA_SEED = $(if $(filter 12,$(NVCC_MAJOR)),,-frandom-seed=$<)

# The assembler's report on each kernel, which tests/gpu/inspect.sh reads, goes beside the object;
# what else the compiler says is shown.
$(BUILD)/cuda/%.o: cuda/%.cu $(BUILD)/cuda/flags
	$(call say,NVCC,$<)$(NVCC) $(CUDA_FLAGS) $(CUDA_WERROR) $(CUDA_SEED) -MMD -MP -MF $(@:.o=.d) -c -o $@ $< >$(@:.o=.log) 2>&1; rc=$$?; \
		grep -v -e '^ptxas info' -e 'bytes stack frame' -e '^$$' $(@:.o=.log) >&2; exit $$rc

$(BUILD)/collctl-cuda.so: $(CUDA_OBJECTS)
	$(call say,LINK,$@)$(NVCC) -shared -ccbin $(CUDA_CXX) $(CUDA_LDFLAGS) -o $@ $(CUDA_OBJECTS)

# ---- tests ----

# standin: the stand-in ends a program that breaks the plug-in's contract.
$(BUILD)/gpu/standin: $(BUILD)/tests/gpu/standin.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(ALL_LDLIBS)
# check: the plug-in on a GPU. check-elements: the kernels' code, compiled for the CPU.
CUDA_REFERENCE = $(BUILD)/tests/gpu/folds.o
$(BUILD)/gpu/check $(BUILD)/gpu/bench: $(BUILD)/gpu/%: $(BUILD)/tests/gpu/%.o $(CUDA_REFERENCE) $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(ARCHIVES) $(ALL_LDLIBS)
$(BUILD)/tests/gpu/rows.o: tests/gpu/rows.cc $(wildcard cuda/fold*) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CUDA_CXX) -std=c++20 -O2 -g -I. -ffp-contract=off -fno-exceptions -fno-rtti -Wall -Wextra $(if $(WERROR),-Werror) -MMD -MP -c -o $@ $<
$(BUILD)/gpu/check_elements: $(BUILD)/tests/gpu/check_elements.o $(BUILD)/tests/gpu/rows.o $(CUDA_REFERENCE) $(ARCHIVES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(ARCHIVES) $(ALL_LDLIBS)

gpu-tests: $(BUILD)/gpu/check $(BUILD)/gpu/bench $(BUILD)/gpu/standin $(if $(CUDA_LACKS),,$(BUILD)/gpu/check_elements)
# What needs a GPU says in a line that there is none, and ends with 77.
check-gpu: all gpu-tests $(filter $(STANDIN),$(CUDA_PLUGIN))
	$(if $(CUDA_LACKS),,-@$(MAKE) -s cuda-tools)
	$(if $(CUDA_LACKS),,$(BUILD)/gpu/check_elements)
	tests/gpu/inspect.sh $(BUILD) || [ $$? = 77 ]
	$(BUILD)/gpu/check $(CUDA_PLUGIN) || [ $$? = 77 ]
	$(NCCL_ENV) tests/gpu/jobs.sh $(BUILD)/collctl $(CUDA_PLUGIN) || [ $$? = 77 ]
	PATH="$$PATH:$(dir $(NVCC))" tests/gpu/sanitize.sh $(BUILD)/collctl $(BUILD)/gpu/check $(CUDA_PLUGIN) || [ $$? = 77 ]
# The first minutes with a GPU: tests/gpu/first-run.sh. $(BUILD) may be carried to a machine that has one.
gpu-first-run: all gpu-tests $(filter $(STANDIN),$(CUDA_PLUGIN))
	COLLCTL=$(BUILD)/collctl PYTHON=$(PYTHON) tests/gpu/first-run.sh --plugin $(CUDA_PLUGIN) $(if $(filter $(STANDIN),$(CUDA_PLUGIN)),--small) || [ $$? = 77 ]
bench-gpu: all $(BUILD)/gpu/bench $(filter $(STANDIN),$(CUDA_PLUGIN))
	$(BUILD)/gpu/bench $(CUDA_PLUGIN) || [ $$? = 77 ]
	COLLCTL=$(BUILD)/collctl $(PYTHON) tests/bench/gpu.py --plugin $(CUDA_PLUGIN) || [ $$? = 77 ]
