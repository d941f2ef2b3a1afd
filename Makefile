# Every target sets up what it needs: .venv, the build, the packages.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
CXX_FILES := $(wildcard cpp/include/segmax/*/*.hpp cpp/src/*/*.hpp cpp/src/*/*.cpp cpp/src/*/*.inc cpp/tests/*.cpp cpp/tests/*.hpp bindings/*.cpp bindings/*.hpp benchmarks/*.cpp)
SOURCES := CMakeLists.txt pyproject.toml $(CXX_FILES) $(shell find src -name '*.py' -o -name '*.gz' -o -name '*.tsv' -o -path '*/page/*')

.PHONY: demo test test-slow test-extras test-ray lint types cpp-test aarch64-test docker-test sanitize bench race soak crash report stubs format clean

# A sparse encoder to show beside BM25: a folder or a name on the hub.
MODEL ?= $(wildcard ../shared/models/splade-mini)

demo: $(VENV)/.installed $(if $(MODEL),$(VENV)/.encoders)
	$(PY) -m segmax.demo $(if $(MODEL),--model $(MODEL))

test: lint types cpp-test
	$(PY) -m pytest -q -n auto --dist worksteal

# Without those of Ray and of models, which have targets of their own.
test-slow: sanitize
	$(PY) -m pytest -q -m slow --ignore=tests/collection/test_crash.py --ignore=tests/ray --ignore=tests/encoders
	$(PY) -m pytest -q -m slow -n auto --dist worksteal tests/collection/test_crash.py

# Kills, failing disks and power losses at every system call of a collection's history: about an hour.
crash: $(VENV)/.installed
	SEGMAX_CRASHES=1 $(PY) -m pytest -q -m slow -n auto --dist worksteal tests/collection/test_crash.py

# Tests that need large packages which nothing else here does: torch, the libraries that segmax plugs into, and what
# drives a browser; the browser itself is Debian's package chromium, without which the tests of the page are skipped.
test-extras: $(VENV)/.encoders
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py integrations) $$($(PY) .ci/requirements.py interop) \
		$$($(PY) .ci/requirements.py browser) $$($(PY) .ci/requirements.py openvino)
	$(PY) -m pytest -q -m "slow or not slow" tests/serve/test_page.py tests/serve/test_contract.py
	$(PY) -m pytest -q -m "slow or not slow" tests/encoders tests/integrations tests/io tests/remote/test_remote_integrations.py \
		tests/experiments/test_experiments_recipe.py
	SEGMAX_ALL_EXTRAS=1 $(PY) -m pytest -q tests/test_documents.py
	$(PY) -m pytest -q -k torch --ignore=tests/encoders

# Tests on a real Ray cluster of several simulated nodes, in a network namespace that has the loopback device alone.
test-ray: $(VENV)/.ray
	.ci/loopback $(CURDIR)/$(PY) -m pytest -q -m "slow or not slow" tests/ray
	.ci/loopback $(CURDIR)/$(PY) -m pytest -q tests/test_documents.py -k "runs and sharding"

# --- the environment: one virtual environment, segmax installed into it, rebuilt when a source changes ---

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip
	touch $@

$(VENV)/.dependencies: $(VENV)/.created pyproject.toml
	$(PY) -m pip install -q "scikit-build-core>=0.10" "nanobind>=2.4" $$($(PY) .ci/requirements.py dev)
	touch $@

$(VENV)/.installed: $(VENV)/.dependencies $(SOURCES)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m pip install -q --no-deps --no-build-isolation .
	touch $@

$(VENV)/.encoders: $(VENV)/.installed
	$(PY) -m pip install -q torch==2.13.0 $$($(PY) .ci/requirements.py encoders) $$($(PY) .ci/requirements.py onnx)
	touch $@

$(VENV)/.ray: $(VENV)/.installed
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py ray)
	touch $@

# --- checks ---

lint: $(VENV)/.dependencies
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES)

types: $(VENV)/.installed
	$(VENV)/bin/mypy

CMAKE := $(VENV)/bin/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja -DSEGMAX_BUILD_TESTS=ON
X86_OBJECTS := $(patsubst %,build/cpp/CMakeFiles/segmax_core.dir/cpp/src/kernels/%.cpp.o,avx2 avx512)

# With asserts. What is compiled for AVX2 or AVX-512 must not export a function that other object files may define, too:
# the linker would keep one copy for all, and it might be the one that older CPUs cannot run.
cpp-test: $(VENV)/.dependencies
	$(CMAKE) -B build/cpp -DSEGMAX_BUILD_PYTHON=OFF -DSEGMAX_ASSERT=ON > build-cpp.log || (cat build-cpp.log; exit 1)
	rm -f build-cpp.log
	$(VENV)/bin/cmake --build build/cpp
	for object in $(X86_OBJECTS); do \
		test ! -e $$object || ! nm -C $$object | grep ' [VWu] ' | grep -Ev 'avx(2|512)_kernels' || exit 1; done
	build/cpp/segmax_tests

# The portable kernels and everything else on another architecture: cross-compiled, and run by an emulator.
AARCH64_TOOLS := aarch64-linux-gnu-g++ qemu-aarch64
AARCH64_MISSING := $(foreach tool,$(AARCH64_TOOLS),$(if $(shell command -v $(tool)),,$(tool)))

aarch64-test: $(VENV)/.dependencies
ifneq ($(strip $(AARCH64_MISSING)),)
	@echo "make aarch64-test needs $(strip $(AARCH64_MISSING)): apt-get install g++-aarch64-linux-gnu qemu-user"
	@exit 1
else
	$(CMAKE) -B build/aarch64 -DSEGMAX_BUILD_PYTHON=OFF -DSEGMAX_ASSERT=ON -DCMAKE_SYSTEM_NAME=Linux \
		-DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_CXX_FLAGS=-Werror
	$(VENV)/bin/cmake --build build/aarch64
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/segmax_tests
endif

# The steps of the Dockerfile in fresh Debian roots, and a search in the image: two minutes. Needs root and debootstrap.
docker-test:
	$(PYTHON) .ci/docker_steps.py

# The C++ tests, and the extension that the slow Python tests of damaged files load, under the sanitizers.
sanitize: $(VENV)/.installed
	$(CMAKE) -B build/sanitize -DSEGMAX_SANITIZE=ON -DPython_EXECUTABLE=$(CURDIR)/$(PY)
	$(VENV)/bin/cmake --build build/sanitize
	build/sanitize/segmax_tests
	$(CMAKE) -B build/threads -DSEGMAX_SANITIZE_THREADS=ON -DSEGMAX_BUILD_PYTHON=OFF
	$(VENV)/bin/cmake --build build/threads --target segmax_tests
	build/threads/segmax_tests batch

# --- for developers ---

stubs: $(VENV)/.installed
	$(PY) -m nanobind.stubgen -m segmax._core -o src/segmax/_core.pyi
	$(VENV)/bin/ruff format src/segmax/_core.pyi

format: $(VENV)/.dependencies
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(CXX_FILES)

bench: $(VENV)/.installed
	$(PY) -m benchmarks.engine

# segmax beside its rivals; RACE takes options of python -m benchmarks.race.
race: $(VENV)/.installed
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py rivals)
	$(PY) -m benchmarks.race $(RACE)

# One writer, readers and merges against each other, for MINUTES; then actors, tasks and nodes that are killed.
MINUTES ?= 10
soak: $(VENV)/.installed $(VENV)/.ray
	$(PY) -m tests.collection.soak --minutes $(MINUTES)
	SEGMAX_KILLS=50 .ci/loopback $(CURDIR)/$(PY) -m pytest -q -m slow tests/ray/test_ray_chaos.py \
		tests/ray/test_ray_building.py -k "chaos or killed or lost"

# The page of all experiments of the paper, docs/report.html, drawn from the outcomes that are kept.
report: $(VENV)/.installed
	$(VENV)/bin/segmax report benchmarks/results/experiments --output docs/report.html

clean:
	rm -rf $(VENV) build segmax-demo docs/report.html
