# `make` prints this help. Every target installs what it needs: the environment in .venv, the Delta jars.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LOWEST := .venv-lowest
PYTEST := $(BIN)/python -m pytest
# Planning small queries keeps one core busy, whatever Spark is given.
WORKERS ?= 2
# Of the benchmark: 1 is 10 million products.
SCALE   ?= 1
FIGURES ?= benchmarks.json
RULES   ?= benchmarks-rules.json
GROUPS  ?= benchmarks-groups.json
SAY     = @printf '\n==> %s\n'

.PHONY: help
help: ## print this help
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

.PHONY: demo
demo: java $(READY) ## play the first part of a story on real Delta tables, and check the results
	@$(BIN)/enrich demo

.PHONY: test
test: java $(READY) check jars ## make check, then all tests but the soaks', the same ones every time; prints what CPU seconds it took
	$(SAY) "tests, in $(WORKERS) processes with a JVM each (WORKERS=1 for one)"
	@ENRICH_MAKE=$$PPID $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not soak"

.PHONY: test-fast
test-fast: java $(READY) jars ## unit tests and a few tests on Spark, to run after every edit
	$(SAY) "unit tests and a Spark smoke test"
	@$(PYTEST) -q -n $(WORKERS) --dist loadfile -m "unit or smoke"

.PHONY: test-lowest
test-lowest: $(LOWEST)/.ready ## what needs no JVM, with every dependency at the lowest version that pyproject.toml allows
	$(SAY) "tests without a JVM, with the lowest versions"
	@$(LOWEST)/bin/python -m pytest -q tests/unit tests/cli/test_cli_commands.py tests/cli/test_cli_output.py

.PHONY: test-world
test-world: java $(READY) $(VENV)/.docs jars tools ## tests that start real outside systems, such as an empty environment for the wheel
	$(SAY) "tests with real outside systems, in $(WORKERS) processes"
	@$(PYTEST) tests/world -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: check
check: $(READY) ## format, lint, types, import directions, measures of the house
	$(SAY) "format"
	@$(BIN)/ruff format --check .
	$(SAY) "lint"
	@$(BIN)/ruff check .
	$(SAY) "types"
	@$(BIN)/mypy
	$(SAY) "import directions"
	@$(BIN)/lint-imports
	$(SAY) "measures of the house"
	@$(BIN)/python .ci/house.py

.PHONY: format
format: $(READY) ## format the code and correct what the linter can correct
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: soak
soak: java $(READY) jars ## a million random history-runs, in parts of less than 85 minutes; call it again for the next part
	@PYTHONPATH=tests $(BIN)/python -m differential.soak --progress soak.jsonl

.PHONY: soak-acts
soak-acts: java $(READY) jars ## 20,000 random histories among administrators who repartition, restore and lose commits, and runs that die
	@PYTHONPATH=tests $(BIN)/python -m differential.soak --lane administrators --progress soak-acts.jsonl

.PHONY: soak-faults
soak-faults: java $(READY) jars ## all tests on Spark with what is marked `soak`: every fault point of every job, 100 kills, 10,000 acts of administrators (hours)
	@ENRICH_SOAK=1 $(PYTEST) -o faulthandler_timeout=0 -m "not unit"

.PHONY: bench
bench: java $(VENV)/.bench jars ## enrich against a rebuild, a MERGE by hand and the floor, also on TPC-H and LHBench: every goal with its verdict (SCALE=1: 10M rows, TPC-H SF1, 90 minutes)
	@$(BIN)/python benchmarks/suite.py --scale $(SCALE) --minutes 85 --json $(FIGURES)
	@$(BIN)/python benchmarks/page.py $(FIGURES) $(wildcard $(RULES) $(GROUPS))

.PHONY: bench-quick
bench-quick: java $(VENV)/.bench jars ## the same with 1M rows and TPC-H SF0.1, fewer changes and fewer rounds (below 10 minutes)
	@$(BIN)/python benchmarks/suite.py --scale 0.1 --rounds 2 --minutes 7 --only cold warm near far one nothing rf1 lines customers

.PHONY: bench-quality
bench-quality: java $(READY) jars ## runs with 1, 10 and 50 row rules against the run without, as ratios; `make bench` puts them on its page (about 8 minutes)
	@$(BIN)/python benchmarks/quality.py --json $(RULES)

.PHONY: bench-state
bench-state: java $(READY) jars ## rules about the whole target against rules about the changed rows, 10M rows (about 10 minutes)
	@$(BIN)/python benchmarks/state.py

.PHONY: bench-groups
bench-groups: java $(READY) jars ## groups that move by their changes against a rebuild and a MERGE of partial sums, a million groups; `make bench` puts them on its page (about 5 minutes)
	@$(BIN)/python benchmarks/groups.py --scale $(SCALE) --json $(GROUPS)

.PHONY: bench-ways
bench-ways: java $(READY) jars ## runs by changes against full refreshes, 0.1 to 60 % changed rows, narrow and wide, as ratios (1M rows, about 30 minutes)
	@$(BIN)/python benchmarks/ways.py

.PHONY: bench-runs
bench-runs: java $(READY) jars ## what half a million rows in the runs table cost its readers and writers (about 3 minutes)
	@$(BIN)/python benchmarks/runs_table.py

.PHONY: docs
docs: $(VENV)/.docs ## build the documentation as a site into site/; a link that leads nowhere is an error
	@$(BIN)/python docs/generators/reference.py
	@$(BIN)/python docs/generators/pictures.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "the site is in site/; to read it with its search: $(BIN)/python -m http.server -d site"

.PHONY: dist
dist: $(VENV)/.dist ## what a release has, in dist/: wheel, sdist, constraints, notes, a list of all parts (SBOM), checksums
	@rm -rf dist build .venv-dist
	$(SAY) "wheel and sdist"
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build --outdir dist . > /dev/null
	$(SAY) "the wheel in an environment of its own, and what is in it"
	@$(PYTHON) -m venv .venv-dist
	@.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[all]"
	@.venv-dist/bin/enrich --version
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json .venv-dist/bin/python
	@cp constraints.txt dist/
	@version=$$(.venv-dist/bin/enrich --version | sed 's/.* //'); \
	sed -n "/^## $$version\b/,/^## /{/^## /!p}" CHANGELOG.md > dist/NOTES.md
	@cd dist && sha256sum -- * > ../SHA256SUMS && mv ../SHA256SUMS . && ls -l

.PHONY: clean
clean: ## remove the environments and caches (the Delta jars in the user's cache stay)
	rm -rf $(VENV) $(LOWEST) .venv-dist site build dist lib/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache

# --- what the targets above need -------------------------------------------------------------------------------------

# The first Python that is new enough; PYTHON=... on the command line overrides it.
PYTHON ?= $(shell for p in python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; install python3.11 and its venv module" >&2; exit 7; }
	$(SAY) "installing enrich and what it needs into $(VENV) (once; about 2 minutes)"
	@$(PYTHON) -m venv --clear $(VENV)
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(READY)
	$(SAY) "installing what builds the site into $(VENV) (once; some seconds)"
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

$(VENV)/.dist: $(READY)
	$(SAY) "installing what builds a release into $(VENV) (once; some seconds)"
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	@touch $@

$(VENV)/.bench: $(READY)
	$(SAY) "installing what generates the tables of TPC-H into $(VENV) (once; some seconds)"
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

$(LOWEST)/.ready: pyproject.toml constraints.txt .ci/lowest.py
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; install python3.11 and its venv module" >&2; exit 7; }
	$(SAY) "installing the lowest versions into $(LOWEST) (once; some minutes)"
	@$(PYTHON) -m venv --clear $(LOWEST)
	@$(PYTHON) .ci/lowest.py > $(LOWEST)/constraints.txt
	@PIP_CONSTRAINT= $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt -e '.[dev]'
	@touch $@

.PHONY: java
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found="$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' || true)"; \
	case "$$found" in 17|21) ;; \
	*) echo "Spark 4 runs on Java 17 or 21; '$$java' gives $${found:-none}: install openjdk-17-jre-headless or set JAVA_HOME" >&2; \
	exit 7;; esac

# Not here, or without the right to install them: the tests that need them are skipped and say so.
.PHONY: tools
tools:
	@missing="$$(for tool in zsh fish debootstrap; do command -v "$$tool" >/dev/null || echo "$$tool"; done)"; \
	if test -n "$$missing" && test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
	printf '\n==> %s\n' "installing what tests start (apt-get):" $$missing; \
	apt-get update -qq && apt-get install --quiet=2 --yes --no-install-recommends $$missing >/dev/null || true; fi

.PHONY: jars
jars: $(READY)
	@$(BIN)/python -m enrich.spark
