# Every target sets up what it needs: .venv, the build, the packages.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
CXX_FILES := $(wildcard cpp/include/segmax/*/*.hpp cpp/src/*/*.hpp cpp/src/*/*.cpp cpp/src/*/*.inc cpp/tests/*.cpp cpp/tests/*.hpp cpp/fuzz/*.cpp cpp/fuzz/*.hpp bindings/*.cpp bindings/*.hpp src/segmax/bench/engines/*.cpp)
SOURCES := CMakeLists.txt pyproject.toml $(CXX_FILES) $(shell find src -name '*.py' -o -name '*.gz' -o -name '*.tsv' -o -path '*/page/*')

# Every build reuses what was compiled before, where ccache is installed.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif

# Python keeps what it compiled, also where the environment says otherwise: tests start many programs.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo docs test test-deep test-slow test-random test-extras test-ray test-ray-smoke lint types tidy tested aarch64-test cross-test portable-test docker-test wheels wheels-test wheel-test sdist sdist-test sanitize fuzz bench race soak crash report stubs format clean

# A sparse encoder to show beside BM25: a folder or a name on the hub.
MODEL ?= $(wildcard ../shared/models/splade-mini)

demo: $(VENV)/.installed $(if $(MODEL),$(VENV)/.encoders)
	$(PY) -m segmax.demo $(if $(MODEL),--model $(MODEL))

test:
	$(MAKE) --no-print-directory -j 2 --output-sync=target lint types tested
	$(PY) -m pytest -q -n auto --dist worksteal --ignore-glob='*_torch.py'

# Those of Ray and of models have targets of their own, which run all of their tests.
OWN_TARGETS := --ignore=tests/ray --ignore=tests/encoders

# What takes over half a CPU second, and so is not in make test; and of every property that is there, three times as many
# other examples, always the same.
test-deep: $(VENV)/.installed tested
	$(PY) -m pytest -q -m deep -n auto --dist worksteal $(OWN_TARGETS)
	SEGMAX_EXAMPLES=others $(PY) -m pytest -q -m "hypothesis and not deep and not slow" --hypothesis-seed=1 -n auto \
		--dist worksteal $(OWN_TARGETS)

# SAMPLE=10 takes every tenth test, others after each commit.
test-slow: sanitize tested
	SEGMAX_SAMPLE=$(SAMPLE) $(PY) -m pytest -q -m slow -n auto --dist worksteal $(OWN_TARGETS)

# Ten times as many examples of every property, of what a service accepts, too; SEED=N draws those of a run that failed again.
test-random: $(VENV)/.installed tested
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py browser | grep schemathesis)
	seed=$(or $(SEED),$$(shuf -i 1-999999999 -n 1)); echo "make test-random SEED=$$seed"; \
	SEGMAX_EXAMPLES=random $(PY) -m pytest -q -m hypothesis --hypothesis-seed=$$seed -n auto --dist worksteal

# Kills, failing disks and power losses at every system call of a collection's history: about an hour.
crash: $(VENV)/.installed tested
	SEGMAX_CRASHES=1 $(PY) -m pytest -q -m slow -n auto --dist worksteal tests/collection/test_crash.py

# The tests of tables: pandas is there for others of these packages.
WITH_PANDAS = $(shell grep -rl --include='*.py' --exclude-dir=integrations --exclude-dir=io 'importorskip("pandas")' tests)

# Tests that need large packages which nothing else here does: torch, the libraries that segmax plugs into, and what
# drives a browser; the browser itself is Debian's package chromium, without which the tests of the page are skipped.
test-extras: $(VENV)/.encoders tested
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py integrations) $$($(PY) .ci/requirements.py interop) \
		$$($(PY) .ci/requirements.py browser) $$($(PY) .ci/requirements.py openvino)
	$(PY) -m pytest -q -m "slow or not slow" tests/serve/test_page.py tests/serve/test_contract.py
	$(PY) -m pytest -q -n auto --dist worksteal -m "slow or not slow" tests/encoders tests/integrations tests/io \
		tests/remote/test_remote_integrations.py tests/experiments/test_experiments_recipe_torch.py
	$(PY) -c "import pandas" && $(PY) -m pytest -q -n auto --dist worksteal $(WITH_PANDAS)
	SEGMAX_ALL_EXTRAS=1 $(PY) -m pytest -q -m "not slow" -n auto --dist worksteal tests/test_documents.py
	$(PY) -m pytest -q -m "slow or not slow" -n auto --dist worksteal -k torch --ignore=tests/encoders

# Tests on a real Ray cluster of several simulated nodes, in a network namespace that has the loopback device alone.
test-ray: $(VENV)/.ray tested
	.ci/loopback $(CURDIR)/$(PY) -m pytest -q -m "slow or not slow" tests/ray
	PYTHONPATH=tests/ray .ci/loopback $(CURDIR)/$(PY) -m pytest -q -m deep tests/contract
	.ci/loopback $(CURDIR)/$(PY) -m pytest -q -m "not slow" tests/test_documents.py -k "run and (sharding or machines)"

# The same without a cluster; on one, a first search, and all claims about what can be searched.
test-ray-smoke: $(VENV)/.ray tested
	$(PY) -m pytest -q -m "not slow" tests/ray
	.ci/loopback $(CURDIR)/$(PY) -m pytest -q -m slow tests/ray/test_ray_local.py
	PYTHONPATH=tests/ray .ci/loopback $(CURDIR)/$(PY) -m pytest -q -m deep tests/contract

# --- the environment: one virtual environment, segmax installed into it, rebuilt when a source changes ---

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip
	touch $@

$(VENV)/.dependencies: $(VENV)/.created pyproject.toml
	$(PY) -m pip install -q "scikit-build-core>=0.12" "nanobind>=2.4" $$($(PY) .ci/requirements.py dev)
	touch $@

$(VENV)/.installed: $(VENV)/.dependencies $(SOURCES)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m pip install -q --no-deps --no-build-isolation .
	touch $@

$(VENV)/.encoders: $(VENV)/.installed
	$(PY) -m pip install -q torch==2.13.0 $$($(PY) .ci/requirements.py encoders) $$($(PY) .ci/requirements.py onnx)
	touch $@

$(VENV)/.fuzz: $(VENV)/.installed
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py fuzz) || echo "without Atheris: fuzzing by random changes"
	touch $@

$(VENV)/.ray: $(VENV)/.installed
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py ray)
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py docs)
	touch $@

# --- the documentation site, in build/docs: built without a warning, then checked: names, commands, links, the longest
# tutorials, and its looks where a browser and playwright are installed (make test-extras installs the latter) ---

docs: $(VENV)/.docs tested
	rm -rf build/docs docs/api/names
	$(PY) -m sphinx -q -E -W --keep-going -j auto -d build/doctrees docs build/docs
	SEGMAX_SITE=$(CURDIR)/build/docs $(PY) -m pytest -q -m "slow or not slow" tests/site \
		$(foreach page,experiments tutorial-paper,"tests/test_documents.py::test_blocks_in_documents_run[docs/$(page).md]")

# --- checks ---

lint: $(VENV)/.dependencies
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES)

types: $(VENV)/.dependencies
	$(VENV)/bin/mypy

$(VENV)/.tidy: $(VENV)/.dependencies
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py tidy)
	touch $@

# clang-tidy with the checks of .clang-tidy; SINCE="3 days" takes the files that commits of that time changed, and those
# that include a changed one, however indirectly.
tidy: $(VENV)/.tidy
	$(CMAKE) --preset tidy -DPython_EXECUTABLE=$(CURDIR)/$(PY) > /dev/null
	files=$(if $(SINCE),$$($(PY) .ci/changed_cpp.py '$(SINCE)'),'(cpp/(src|tests)|bindings)/.*') || exit 1; \
	$(PY) $(VENV)/bin/run-clang-tidy.py -clang-tidy-binary $(CURDIR)/$(VENV)/bin/clang-tidy -p build/tidy -quiet \
		"^$(CURDIR)/($$files)$$"

# CMakePresets.json has the options of every build and its folder.
CMAKE := $(VENV)/bin/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja
X86_OBJECTS := $(patsubst %,build/test/CMakeFiles/segmax_core.dir/cpp/src/kernels/%.cpp.o,avx2 avx512)

# What pytest loads and runs: the extension and the C++ tests, of the same objects, with asserts. The environment keeps
# the release build. What is compiled for AVX2 or AVX-512 must not export a function that other object files may define,
# too: the linker would keep one copy for all, and it might be the one that older CPUs cannot run.
tested: $(VENV)/.dependencies
	$(CMAKE) --preset test -DPython_EXECUTABLE=$(CURDIR)/$(PY) > build-test.log || (cat build-test.log; exit 1)
	rm -f build-test.log
	$(VENV)/bin/cmake --build --preset test
	for object in $(X86_OBJECTS); do \
		test ! -e $$object || ! nm -C $$object | grep ' [VWu] ' | grep -Ev 'avx(2|512)_kernels' || exit 1; done
	$(PY) .ci/tested.py > /dev/null

# The kernels for NEON, the portable ones, and everything else on another architecture: cross-compiled, and run by an
# emulator.
AARCH64_TOOLS := aarch64-linux-gnu-g++ qemu-aarch64
AARCH64_MISSING := $(foreach tool,$(AARCH64_TOOLS),$(if $(shell command -v $(tool)),,$(tool)))

aarch64-test: $(VENV)/.dependencies
ifneq ($(strip $(AARCH64_MISSING)),)
	@echo "skipped: make aarch64-test needs $(strip $(AARCH64_MISSING)): apt-get install g++-aarch64-linux-gnu qemu-user"
else
	$(CMAKE) --preset aarch64
	$(VENV)/bin/cmake --build --preset aarch64
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/segmax_tests
	SEGMAX_SIMD=portable qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/segmax_tests brute_force
endif

# The C++ tests for other systems, compiled by zig, which has their headers and libraries with it. Those for Windows run
# in wine (Debian's package wine64); those for macOS can only be compiled here, and so are the bindings.
CROSS ?= x86_64-windows-gnu x86_64-macos aarch64-macos
ZIG = $(shell $(PY) -c "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / 'zig')")

cross-test: $(CROSS:%=cross-test-%)

cross-test-%: $(VENV)/.wheels
	$(CMAKE) -B build/cross/$* -DSEGMAX_BUILD_PYTHON=OFF -DSEGMAX_BUILD_TESTS=ON -DSEGMAX_ASSERT=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
		-DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DZIG=$(ZIG) -DZIG_TARGET=$*
	$(VENV)/bin/cmake --build build/cross/$* --target segmax_tests
	case $* in \
		*-windows-*) if command -v wine; then WINEDEBUG=-all WINEPREFIX=$(CURDIR)/build/wine wine build/cross/$*/segmax_tests.exe; \
			else echo "compiled only: apt-get install wine64 to run the tests"; fi ;; \
		*-macos) for file in bindings/*.cpp; do \
			$(ZIG) c++ -target $* -std=gnu++20 -c -o build/cross/$*/bindings.o -Icpp/include \
				-isystem $$($(PY) -m nanobind --include_dir) \
				-isystem $$($(PY) -c "import sysconfig; print(sysconfig.get_path('include'))") $$file || exit 1; done ;; \
	esac

# Tests on Linux as if it were macOS and Windows: their ways are taken, and what they have not is taken away.
PORTABLE := tests/base/test_files.py tests/storage/test_golden.py tests/building/test_given.py tests/search/test_api.py \
	tests/collection/test_collection.py tests/collection/test_log.py tests/collection/test_lock.py tests/cli/test_logging.py

portable-test: $(VENV)/.installed tested
	for system in macos windows; do \
		SEGMAX_SYSTEM=$$system PYTHONPATH=tests/portable/site $(PY) -m pytest -q -p lacking -n 2 --dist worksteal $(PORTABLE) || exit 1; done

# The steps of the Dockerfile in fresh Debian roots, and a search in the image: two minutes. Needs root and debootstrap.
docker-test:
	$(PYTHON) .ci/docker_steps.py

# --- what is released ---

$(VENV)/.wheels: $(VENV)/.dependencies
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py wheels)
	touch $@

# The wheels for Linux, into dist/: for Python 3.11 and for all later versions, for x86-64 and aarch64.
wheels: sdist dist/.wheels

dist/.wheels: $(VENV)/.wheels $(SOURCES) .ci/wheels.py | sdist
	$(PY) .ci/wheels.py
	touch $@

sdist: $(VENV)/.wheels
	rm -f dist/segmax-*.tar.gz
	$(PY) -m build -q --sdist

# The wheels and the sdist of dist/ where there is no compiler: in fresh Debian roots, which need root and debootstrap,
# and under an emulator. All fast tests for x86-64, a part for aarch64.
wheels-test: wheels $(VENV)/.installed
	$(PY) -m pytest -q tests/deploy
	$(PY) .ci/wheels_test.py

# One of them, with the tests that say most.
wheel-test: sdist
	$(PY) .ci/wheels.py --arch x86_64 --abi cp312-abi3
	$(PY) .ci/wheels_test.py --quick --arch x86_64

sdist-test: sdist
	$(PY) .ci/sdist_test.py

# The C++ tests, and the extensions that slow Python tests load (damaged files; threads of collections), under the
# sanitizers. The thread sanitizer of older compilers cannot live with the random addresses of newer kernels.
UNRANDOMIZED := $(if $(shell command -v setarch),setarch -R)
sanitize: $(VENV)/.installed
	$(CMAKE) --preset sanitize -DPython_EXECUTABLE=$(CURDIR)/$(PY)
	$(VENV)/bin/cmake --build --preset sanitize
	build/sanitize/segmax_tests
	for name in $(FUZZ_NAMES); do build/sanitize/fuzz_$$name tests/fuzz/corpus/core_$$name || exit 1; done
	$(CMAKE) --preset threads -DPython_EXECUTABLE=$(CURDIR)/$(PY)
	$(VENV)/bin/cmake --build --preset threads
	$(UNRANDOMIZED) build/threads/segmax_tests batch
	$(UNRANDOMIZED) build/threads/segmax_tests concurrent

# All fuzz targets for SECONDS together, or TARGET alone (python -m tests.fuzz --list names them): those in C++ with
# libFuzzer where clang has it, those in Python with Atheris where it can be installed, else with random changes alone.
# What is found is in build/fuzz/found.
SECONDS ?= 60
FUZZ_NAMES := $(patsubst cpp/fuzz/fuzz_%.cpp,%,$(wildcard cpp/fuzz/fuzz_*.cpp))
FUZZ_TRIAL := 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
FUZZ_CXX = $(shell for cxx in clang++ clang++-19 clang++-16 clang++-14; do echo $(FUZZ_TRIAL) | \
	$$cxx -x c++ -fsanitize=fuzzer,address - -o /dev/null 2> /dev/null && echo $$cxx && break; done)

fuzz: $(VENV)/.fuzz
	cxx="$(FUZZ_CXX)"; $(CMAKE) --preset fuzz $${cxx:+-DCMAKE_CXX_COMPILER=$$cxx}
	$(VENV)/bin/cmake --build --preset fuzz
	$(PY) -m tests.fuzz --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET))

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

# segmax beside its rivals. BENCH has arguments of segmax bench, for data that anybody can get: BENCH="--generate 100000".
# Without it, our own vectors are raced, and RACE takes options of python -m benchmarks.race.
race: $(VENV)/.installed
	$(PY) -m pip install -q $$($(PY) .ci/requirements.py rivals)
	$(if $(BENCH),$(VENV)/bin/segmax bench $(BENCH),$(PY) -m benchmarks.race $(RACE))

# One writer, readers and merges against each other, for MINUTES; then actors, tasks and nodes that are killed.
MINUTES ?= 10
soak: $(VENV)/.ray tested
	$(PY) -m tests.collection.soak --minutes $(MINUTES)
	SEGMAX_KILLS=50 .ci/loopback $(CURDIR)/$(PY) -m pytest -q -m slow tests/ray/test_ray_chaos.py \
		tests/ray/test_ray_building.py -k "chaos or killed or lost"

# The page of all experiments of the paper, docs/report.html, drawn from the outcomes that are kept.
report: $(VENV)/.installed
	$(VENV)/bin/segmax report benchmarks/results/experiments --output docs/report.html

clean:
	rm -rf $(VENV) build dist segmax-demo docs/report.html docs/project docs/api/names
