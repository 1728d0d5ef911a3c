# tickwheel: `make run` and `make test` are all a fresh machine needs; the rest is for working on it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(filter-out %__main__.py,$(wildcard src/tickwheel/wheels/*.py src/tickwheel/timers/*.py src/tickwheel/recipes/*.py)) \
  src/tickwheel/durations.py src/tickwheel/scheduler/draft.py src/tickwheel/stores/bounds.py $(wildcard src/native/*.h)

# Three files of tests at a time, also on two cores: most of them wait for something now and then.
SIDE_BY_SIDE := --numprocesses=3 --dist=loadfile --no-loadscope-reorder

# Interpreters besides $(PYTHON) that the core must work on.
VERSIONS ?= 3.12 3.13

.PHONY: run test check lint types rooms fuzz chaos versions bench browser etcd postgres redis faketime clean

run: $(STAMP)  ## serve the API and the dashboard on an SQLite file, with example tasks
	mkdir -p var
	$(BIN)/tickwheel serve --demo --store sqlite:///var/demo.db

test: $(STAMP) $(BIN)/promtool browser etcd postgres redis faketime  ## run every test, on both builds
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) --durations=20
	TICKWHEEL_PURE=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/timers tests/recipes \
	  tests/scheduler/test_draft.py tests/test_durations.py

check: lint types rooms test  ## what has to hold before anything lands
	$(MAKE) --jobs=2 --output-sync=target versions

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

rooms: $(STAMP)  ## hold the table of what may import what
	PYTHONPATH=. $(BIN)/lint-imports

fuzz: $(STAMP)  ## look for new counterexamples, for as long as it takes
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest tests/wheels/test_model.py

chaos: $(STAMP) etcd postgres redis faketime  ## let things go wrong by chance for some minutes: make chaos CHAOS='--seconds 600 --seed 7'
	$(BIN)/python -m tests.cluster.chaos $(CHAOS)

versions: $(VERSIONS:%=version-%)  ## install the built package on other interpreters and test the wheels there

version-%:
	@if python="$$(tools/find-python $*)"; then \
	  set -e; rm -rf build/$*; "$$python" -m venv build/$*; \
	  build/$*/bin/pip install --quiet --disable-pip-version-check . hypothesis pytest uvloop; \
	  build/$*/bin/python -c "import tickwheel; print('Python $*:', 'compiled' if tickwheel.COMPILED else 'interpreted')"; \
	  build/$*/bin/python -m pytest -q tests/test_build.py tests/wheels tests/timers tests/recipes tests/testing \
	    tests/tasks tests/stores/test_sqlite.py tests/scheduler/test_engine.py tests/scheduler/test_sqlite.py \
	    tests/cluster/test_shares.py tests/cluster/test_sharing.py; \
	else echo "Python $* is not on this machine: NOT TESTED"; fi

bench: $(STAMP)  ## ratios against peers, tables and plots in bench/results
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find src -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml setup.py $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	find src -name '*.so' -delete
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[apscheduler,bench,dev,etcd,otel,postgres,redis,server,workflow]'
	@$(BIN)/python -c "import tickwheel; print('tickwheel is', 'compiled' if tickwheel.COMPILED else \
	  'interpreted: no C compiler or no Python headers were found; it works, several times slower')"
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

faketime:  ## what gives a node a wrong clock; without it those tests fail and say so
	-tools/install-faketime
