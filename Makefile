# tickwheel: `make run` and `make test` are all a fresh machine needs; the rest is for working on it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# What the service needs, and what the tests and tools need besides.
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
EXTRAS := apscheduler,bench,dev,etcd,otel,postgres,redis,server,workflow

# What is compiled: the wheels, and the list HOT in setup.py.
NATIVE := $(wildcard src/tickwheel/wheels/*.py src/native/*.h) \
  $(addprefix src/tickwheel/,$(shell sed -n '/^HOT = (/,/^)/s/^ *"\(.*\)",$$/\1/p' setup.py))

# Four processes with a file of tests each, also on two cores: most of them wait for something now and then. Tests that
# need the same server run in one of them (tests/conftest.py).
# A test that hangs ends its process; the file is tried again at most twice.
SIDE_BY_SIDE := --numprocesses=4 --dist=loadgroup --no-loadscope-reorder --max-worker-restart=2

# Interpreters besides $(PYTHON) that the core must work on.
VERSIONS ?= 3.12 3.13

# Whatever the shell says, what is compiled is kept: the tests start hundreds of processes, which import it again.
unexport PYTHONDONTWRITEBYTECODE

# How long `make fuzz` goes on.
FUZZ_MINUTES ?= 60

.PHONY: run test test-interpreted test-quick check lint types imports package fuzz chaos versions bench browser etcd postgres redis clean

run: $(RUN_STAMP)  ## serve the API and the dashboard on an SQLite file, with example tasks
	mkdir -p var
	$(BIN)/tickwheel serve --demo --store sqlite:///var/demo.db

test: $(STAMP) $(BIN)/promtool browser etcd postgres redis  ## run every test
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --durations=20

test-interpreted: $(STAMP)  ## run the tests of what is compiled once more, interpreted; those of wheels take both builds by themselves
	TICKWHEEL_PURE=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/timers tests/recipes \
	  tests/scheduler/test_task_builder.py tests/test_durations.py

test-quick: $(STAMP) $(BIN)/promtool  ## run the tests that are not slow and need no server and no browser, on the build that is installed
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --quick

check: lint types imports test test-interpreted package  ## what has to hold before anything lands
	$(MAKE) --jobs=2 --output-sync=target versions

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)  ## check which package imports which
	PYTHONPATH=. $(BIN)/lint-imports

package: $(STAMP)  ## build sdist and wheel, install each without a compiler, and run tasks there
	$(BIN)/python tools/check_package.py

fuzz: $(STAMP)  ## look for new counterexamples: make fuzz FUZZ_MINUTES=5
	$(BIN)/python tools/fuzz.py --minutes $(FUZZ_MINUTES)

chaos: $(STAMP) etcd postgres redis  ## let things go wrong by chance for some minutes: make chaos CHAOS='--seconds 600 --seed 7'
	$(BIN)/python -m tests.cluster.chaos $(CHAOS)

versions: $(VERSIONS:%=version-%)  ## install the package on other interpreters and test the core there

version-%:
	@if python="$$(tools/find-python $*)"; then \
	  set -e; rm -rf build/$*; "$$python" -m venv build/$*; \
	  build/$*/bin/pip install --quiet --disable-pip-version-check . hypothesis numpy pytest uvloop; \
	  build/$*/bin/python -c "import tickwheel; print('Python $*:', 'compiled' if tickwheel.COMPILED else 'interpreted')"; \
	  build/$*/bin/python -m pytest -q tests/test_build.py tests/test_durations.py tests/wheels tests/timers tests/recipes \
	    tests/testing tests/tasks tests/stores/test_sqlite.py tests/scheduler/test_engine.py tests/scheduler/test_sqlite.py \
	    tests/cluster/test_assignment.py tests/cluster/test_sharing.py; \
	  TICKWHEEL_PURE=1 build/$*/bin/python -m pytest -q tests/timers tests/recipes tests/test_durations.py; \
	else echo "Python $* is not on this machine: NOT TESTED"; fi

bench: $(STAMP)  ## ratios against peers, tables and plots in bench/results
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_STAMP): pyproject.toml setup.py $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else \
	  "tickwheel needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=/path/to/python3" % sys.version_info[:2])'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --upgrade pip
	find src -name '*.so' -delete
	$(PIP) install --editable '.[server]'
	@$(BIN)/python -c "import tickwheel; print('tickwheel is', 'compiled' if tickwheel.COMPILED else \
	  'interpreted: no C compiler or no Python headers were found; it works, several times slower')"
	touch $@

# tickwheel itself is installed by then: this adds what its extras need, and compiles nothing again.
$(STAMP): $(RUN_STAMP)
	$(PIP) install 'tickwheel[$(EXTRAS)]'
	touch $@

$(BIN)/promtool: | $(STAMP)  ## what checks the alert rules; without it their tests fail and say so
	-tools/fetch-promtool $@

browser:  ## what the dashboard is tested in; without it its tests fail and say so
	-tools/fetch-chromium

etcd:  ## what tests of the etcd store start; without it they fail and say so
	-tools/install-etcd

postgres:  ## what tests of the PostgreSQL store start; without it they fail and say so
	-tools/install-postgres

redis:  ## what tests of the Redis store start; without it they fail and say so
	-tools/install-redis
