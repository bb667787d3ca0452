# Two commands matter: `make serve` and `make test`. Everything they need is made on the first run.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help serve test lint format docs house bench reliability compatibility soak dist lock clean

help:
	@echo 'make serve [ARGS="--memory -p 0"]   start a server'
	@echo 'make test  [ONLY=path|word] [SEED=n] lint, types, import rules and all tests'
	@echo 'make test ONLY=clients               clients in Go, Rust and Java, a step of its own'
	@echo 'make lint | format                   check, or rewrite, the form of the code'
	@echo 'make docs                            build the documentation into build/docs'
	@echo 'make house [ARGS=engine]             measure the source into docs/house.md; or print what a package should mend'
	@echo 'make bench [ARGS="protocol purge"]    measure speed into docs/performance.md, beside other servers'
	@echo 'make bench ARGS=lifecycle [BASE=commit]   the features of docs/before-and-after.md'
	@echo 'make reliability [ARGS=faults]       play faults and hostile requests into docs/reliability.md'
	@echo 'make compatibility [ARGS=word]       run clients'"'"' own tests against Mayfly; ARGS=cosmos, mongo, unified, ydb, functional ...'
	@echo 'make soak  [HOURS=8] [SEED=n]        the tests that run for hours'
	@echo 'make dist                            wheel and sdist, with the portal'"'"'s editor'
	@echo 'make lock                            resolve requirements*.lock anew'
	@echo 'make clean                           remove everything that was made'

serve:
	@tools/venv.sh runtime
	@tools/web.sh
	@exec .venv/bin/mayfly serve $(ARGS)

test:
	@ONLY='$(ONLY)' SEED='$(SEED)' tools/test.sh

lint:
	@tools/venv.sh test
	@tools/lint.sh

format:
	@tools/venv.sh test
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

docs:
	@tools/venv.sh test
	@.venv/bin/sphinx-build --quiet --fail-on-warning --jobs auto docs build/docs
	@echo 'open build/docs/index.html'

house:
	@tools/venv.sh test
	@.venv/bin/python tools/house.py $(ARGS)

bench:
	@BENCH_BASE='$(BASE)' tools/bench.sh $(ARGS)

reliability:
	@tools/venv.sh test
	@tools/system-packages.sh strace
	@.venv/bin/python tools/promises.py $(ARGS)

compatibility:
	@SAMPLE='$(SAMPLE)' SEED='$(SEED)' tools/compatibility.sh $(ARGS)

soak:
	@HOURS='$(or $(HOURS),8)' SEED='$(SEED)' tools/soak.sh

dist:
	@tools/venv.sh test
	@REQUIRE=all tools/web.sh
	@rm -rf dist
	@.venv/bin/python -m hatchling build

lock:
	@tools/lock.sh

clean:
	@rm -rf .venv .venv-* .bench .compatibility build dist .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
	@rm -rf tools/web/node_modules src/mayflydb/portal/static/vendor
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
