# Two commands do everything: `make run` and `make test`. Neither needs more than Python 3.11 with venv, make and binutils.

PLAN ?= quick
DEVICE ?=
ARGS ?=
WITH ?=
TESTS ?=
JOBS ?= logical

.DEFAULT_GOAL := help
.PHONY: help setup run test-quick test test-all nightly mutate check clean

help:
	@echo "make run                measure this machine: the plan 'quick', about a minute after installation"
	@echo "make test-quick         the tests of seconds"
	@echo "make test               the test suite"
	@echo "make test-all           with PyTorch, and the suites that take minutes: what CI runs"
	@echo "make nightly            all of it, simulations and fuzzing with all their draws"
	@echo "make mutate             600 changes of the measuring core, each against its tests"
	@echo "make check              ruff, mypy, import contracts, size report"
	@echo "make setup              only make .venv and install Hotlap into it"
	@echo "make clean              remove .venv and caches; runs are kept"
	@echo
	@echo "PLAN=standard           another plan, by name or file      (run)"
	@echo "DEVICE=0                a device: index, UUID or 'all'     (run)"
	@echo "ARGS='--label a=b'      further options of 'hotlap run'    (run), of pytest (test)"
	@echo "WITH=torch,cuda         further extras of the package      (run, test, setup)"
	@echo "TESTS=tests/core/stats       only these tests                   (test…)"
	@echo "JOBS=0                  processes that run tests           (test…; logical: one per core, 0: one, no others beside it)"
	@echo "PYTHON=python3.12       the Python that makes .venv        (all)"

setup:
	@scripts/setup.sh $(WITH)

run: setup
	@HOTLAP_BEGUN_BY='make run' .venv/bin/hotlap run '$(PLAN)' $(if $(DEVICE),--device '$(DEVICE)') $(ARGS)

# Tests start Python hundreds of times: where nothing may be compiled ahead, each start costs three times as much.
PYTEST = env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest -n $(JOBS) --maxprocesses 8

test-quick:
	@scripts/setup.sh test $(WITH)
	@$(PYTEST) -m 'not slow and not thorough and not nightly' $(TESTS) $(ARGS)

test:
	@scripts/setup.sh test $(WITH)
	@$(PYTEST) -m 'not thorough and not nightly' $(TESTS) $(ARGS)

test-all:
	@scripts/setup.sh test torch $(WITH)
	@$(PYTEST) -m 'not nightly' $(TESTS) $(ARGS)

nightly:
	@scripts/setup.sh test torch ray $(WITH)
	@HOTLAP_TEST_DRAWS=full $(PYTEST) $(TESTS) $(ARGS)
	@scripts/tools.sh
	@scripts/vllm_check.sh
	@scripts/quality_check.sh

mutate:
	@scripts/setup.sh test mutate $(WITH)
	@.venv/bin/python scripts/mutate.py $(ARGS)

check:
	@scripts/setup.sh lint $(WITH)
	@scripts/check

clean:
	rm -rf .venv build dist src/hotlap.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
