# make compare    set up .venv, then compare the kernels (without a GPU: what is known without one)
# make test       set up .venv, then run the everyday tests
# make help       list the rest
#
# PYTHON=... uses that interpreter as it is, on the source tree, and installs nothing.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

BASE_PYTHON ?= python3
comma := ,
VENV := .venv
ARGS ?=

ifeq ($(origin PYTHON),undefined)
  PYTHON := $(VENV)/bin/python
  # nvidia-smi answers only where a driver has found a GPU.
  HARDWARE := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
  RUN_READY := $(VENV)/.ready-to-run-$(HARDWARE)
  TEST_READY := $(VENV)/.ready-to-test-$(HARDWARE)
else
  export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
  # Tests that install packages, even into an environment of their own, are not asked for.
  SELECT := -m "not network"
endif

# Workers that keep the modules which they compiled begin sooner the next time.
unexport PYTHONDONTWRITEBYTECODE

# Benchmarks are not tests, and pytest-benchmark warns, which is an error, when workers keep it from measuring.
WORKERS = $$($(PYTHON) -c 'from importlib.util import find_spec as f; print("-n auto --dist worksteal" if f("xdist") else "")')
PYTEST = $(PYTHON) -m pytest -p no:benchmark $(WORKERS)

SPELLED := .ci benchmarks cuda_src docs tests tiledmm tools CITATION.cff Makefile mkdocs.yml pyproject.toml $(wildcard *.md)

.PHONY: help
help:  ## This list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22
	@echo
	@$(BASE_PYTHON) -m tools

.PHONY: install
install: $(RUN_READY)  ## Only set up .venv, for `.venv/bin/tiledmm`

.PHONY: compare
compare: $(RUN_READY)  ## The main job: every variant beside cupy.matmul (ARGS="--help")
	$(PYTHON) -m tiledmm compare $(ARGS)

.PHONY: test
test: $(TEST_READY)  ## The everyday tests that this machine can run (ARGS="-k tiled")
	@echo "Collecting the tests, which takes about half a minute; then each dot is a test"
	$(PYTEST) $(SELECT) $(ARGS)

# Half an hour on two cores; with ARGS=--full hours.
.PHONY: test-full
test-full: $(TEST_READY)  ## The other tests: kernels simulated and compiled type by type (ARGS=--full: and tile, layout, target)
	$(PYTEST) $(SELECT) --slow -m "slow or full" $(ARGS)

# A BASE_PYTHON that was given is the one that is tested.
SUPPORTED = $(BASE_PYTHON) -m tools.supported $(if $(filter-out file,$(origin BASE_PYTHON)),--python $(BASE_PYTHON))

.PHONY: test-lowest
test-lowest:  ## A short selection with the lowest versions that pyproject.toml allows, and the oldest Python here
	$(SUPPORTED) lowest $(ARGS)

.PHONY: test-latest
test-latest:  ## The same selection with the newest versions, in the newest Python here
	$(SUPPORTED) latest $(ARGS)

.PHONY: test-pythons
test-pythons:  ## The same selection with the newest versions, in each Python here
	$(SUPPORTED) newest $(ARGS)

.PHONY: bugs
bugs: $(TEST_READY)  ## Whether the tests and the simulator notice planted bugs (ARGS="host -k plan", ARGS="host-mutants --limit 50")
	$(PYTHON) -m tools.bugs $(ARGS)

.PHONY: gpu-check
gpu-check: $(TEST_READY)  ## Everything that needs a GPU: tests and compute-sanitizer
	$(PYTHON) tests/gpu/check.py $(ARGS)

.PHONY: lint
lint: $(TEST_READY)  ## Ruff, mypy, spelling, and that imports run downward only
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -m codespell_lib $(SPELLED)
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

.PHONY: format
format: $(TEST_READY)  ## Format Python, and CUDA C headers
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(PYTHON) -c 'import clang_format; clang_format.clang_format()' -i cuda_src/*.cuh

.PHONY: docs
docs: $(TEST_READY)  ## The documentation, in site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build $(ARGS)
	@echo "Open site/index.html"

.PHONY: golden
golden: $(TEST_READY)  ## Write tests/golden/ anew from the templates
	$(PYTHON) -m tests.golden

.PHONY: clean
clean:  ## Remove environments, builds and caches
	rm -rf $(VENV) .venv-* build dist site .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tiledmm needs Python 3.10 or newer: make BASE_PYTHON=...")'
	$(BASE_PYTHON) -m venv $(VENV)

# $(1): extras. An environment that already has another CuPy keeps it: two of its packages would overwrite each other.
OTHER_CUPY := import re, sys; from importlib.metadata import distributions; \
  names = {d.metadata["Name"].lower() for d in distributions()} - {"cupy-cuda12x"}; \
  sys.exit(not any(re.fullmatch("cupy|cupy-(cuda|rocm).*", name) for name in names))
define install
	@extras=$(1); \
	if [ $(HARDWARE) = gpu ] && ! $(PYTHON) -c '$(OTHER_CUPY)'; then extras=cuda12,$$extras; fi; \
	echo "Installing tiledmm[$$extras] in $(VENV)"; \
	$(PYTHON) -m pip install --disable-pip-version-check --no-compile --editable ".[$$extras]"
endef

$(VENV)/.ready-to-run-%: pyproject.toml | $(VENV)/bin/python
	$(call install,inspect)
	@touch $@

$(VENV)/.ready-to-test-%: pyproject.toml | $(VENV)/bin/python
	$(call install,$(subst +,$(comma),inspect+dev))
	@# Without a GPU, too: many tests need CuPy, and run on the host.
	@$(PYTHON) -c '$(OTHER_CUPY)' || $(PYTHON) -m pip install --disable-pip-version-check cupy-cuda12x
	@touch $(RUN_READY) $@
