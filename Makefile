# Every target makes its own environment in .venv when it is missing; nothing but Python 3.11+, make and a package
# index is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint types format docs benchmark clean

demo: $(VENV)/.dev
	$(BIN)/qpaths demo

test: $(VENV)/.dev
	$(BIN)/pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What a user's type checkers say of the public names; `make lint` runs mypy only, because pyright fetches Node.
types: $(VENV)/.dev
	$(INSTALL) 'pyright[nodejs]'
	$(BIN)/mypy tests/typing
	$(BIN)/pyright

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

benchmark: $(VENV)/.dev
	$(BIN)/python benchmarks/interpolate.py

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "qpaths needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(INSTALL) --editable '.[docs]'
	touch $@
