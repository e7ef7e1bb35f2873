# Each target makes .venv and installs what it needs by itself; the second time that takes no time.
PYTHON ?= python3
BIN    := .venv/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet

.PHONY: help demo test test-slow check bench-lm bench-train builtin picture clean
help:
	@echo "make demo        train English -> Italian here and now and watch it translate"
	@echo "make test        format, lint, types, tests, README commands"
	@echo "make test-slow   the long proofs"
	@echo "make check       format, lint and types only"
	@echo "make bench-lm    language-model training beside a plain PyTorch loop (DATA=folder of tinyshakespeare.txt)"
	@echo "make bench-train training beside torch.nn.Transformer and Marian (DATA=folder of Multi30k)"
	@echo "make builtin     train the model that ships inside the package again"
	@echo "make picture     make the picture in the README again"

# torch first and alone: an unpinned torch, asked for by another package, brings gigabytes of CUDA libraries along.
.venv/.run: pyproject.toml constraints.txt
	@echo "installing into .venv (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) torch
	@$(PIP) --editable .
	@touch $@

.venv/.dev: .venv/.run
	@echo "installing the development tools into .venv (once)"
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: .venv/.run
	@$(BIN)/transduce demo

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# strace lets tests kill a training inside a system call; where it cannot be installed, pytest names the tests it skips.
.venv/.strace:
	@mkdir -p .venv
	@command -v strace >/dev/null || { apt-get update -qq && apt-get install -qq -y strace; } >/dev/null 2>&1 \
	  || echo "strace is not installed and cannot be: the tests that need it are skipped"
	@touch $@

test: check .venv/.strace
	$(BIN)/pytest -m "not slow"

test-slow: .venv/.dev .venv/.strace
	$(BIN)/pytest -m slow

bench-lm: .venv/.run
	$(BIN)/python bench/lm.py $(if $(DATA),--data $(DATA))

bench-train: .venv/.run
	@$(PIP) -r bench/requirements.txt
	$(BIN)/python bench/train.py $(if $(DATA),--data $(DATA))

builtin: .venv/.run
	GOMP_SPINCOUNT=10000 $(BIN)/python -m transduce.app.builtin

picture: .venv/.run
	GOMP_SPINCOUNT=10000 $(BIN)/python docs/picture.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis
