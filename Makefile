# Every target makes its own environment in .venv when it is missing; nothing but Python 3.11+, make and a package
# index is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-outside lint types format docs docs-serve prose package benchmark clean

demo: $(VENV)/.demo
	$(BIN)/qpaths demo

test: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist loadscope

# What lies outside the packages: the examples of all pages, tutorials, examples, and tools of benchmarks.
test-outside: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist load -m outside

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

# The site in site/: a warning, a dead link or anchor, or a file that a page loads from another host is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tools/check_links.py site

# For authors: the site at localhost:8000, built again at each change.
docs-serve: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --watch src

# Spelling and style of docs and docstrings. Exceptions: `tool.codespell` in pyproject.toml, and tools/check_prose.py.
prose: $(VENV)/.docs
	$(BIN)/codespell *.md docs src paper tests benchmarks tools examples
	$(BIN)/python tools/check_prose.py
	if [ -f ../shared/checks/prose.py ]; then $(BIN)/python ../shared/checks/prose.py; fi

# Sdist and wheel, installed into a fresh environment and used there.
package: $(VENV)/.dev
	$(BIN)/python tests/check_package.py

benchmark: $(VENV)/.dev
	$(BIN)/python -m benchmarks.speed.interpolate

clean:
	rm -rf $(VENV) .jax_cache site .mypy_cache .pytest_cache .ruff_cache

# The command line and the paper's experiments, for users who only look.
$(VENV)/.demo: pyproject.toml paper/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "qpaths needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[cli]' --editable paper
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(INSTALL) --editable '.[dev]' --editable paper
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(INSTALL) --editable '.[docs]'
	touch $@
