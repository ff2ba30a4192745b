.PHONY: build test test-slow test-weekly test-all sanitize fuzz docs lint format bench clean

PYTHON ?= python
# Of slow tests, which often wait: three on two cores.
WORKERS = $(shell $(PYTHON) -c "import os; print(os.cpu_count() * 3 // 2 or 1)")
C_FILES = $(shell git ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.cu' '*.cuh')

build:
	$(PYTHON) setup.py -q build_ext --inplace

test:
	$(PYTHON) -m pytest

test-slow:
	$(PYTHON) -m pytest -m "slow and not weekly" -n $(WORKERS) --durations=20

test-weekly:
	$(PYTHON) -m pytest -m weekly -n $(WORKERS) --durations=20
	$(PYTHON) -m pytest -m "hypothesis and not slow" --hypothesis-profile drawn

test-all:
	$(PYTHON) -m pytest -m "slow or not slow"

sanitize:
	$(PYTHON) bench/sanitize.py

fuzz:
	$(PYTHON) bench/fuzz.py

docs:
	$(PYTHON) docs/build.py --serve

lint:
	ruff check .
	ruff format --check .
	clang-format --dry-run --Werror $(C_FILES)

format:
	ruff check --fix .
	ruff format .
	clang-format -i $(C_FILES)

bench:
	$(PYTHON) -m pytest -n0 bench/*.py --benchmark-enable

clean:
	rm -rf build dist *.egg-info
	find ocean vector extensions -name '*.so' -delete
