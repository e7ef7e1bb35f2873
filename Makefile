# Each target makes .venv and installs what it needs; after the first time that takes no time.
PYTHON ?= python3
BIN    := .venv/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet

.PHONY: help demo test test-slow mutants check bench-lm bench-train bench-decode builtin picture clean
help:
	@echo "make demo         train English -> Italian here and now and watch it translate"
	@echo "make test         format, lint, types, tests, README commands"
	@echo "make test-slow    the long proofs"
	@echo "make mutants      do the tests notice one wrong line? about an hour (ONLY=part of a file's name)"
	@echo "make check        format, lint and types only"
	@echo "make bench-lm     language-model training beside a plain loop (DATA=folder of tinyshakespeare.txt)"
	@echo "make bench-train  training beside torch.nn.Transformer and Marian (DATA=folder of Multi30k)"
	@echo "make bench-decode translating beside Hugging Face and CTranslate2 (DATA=folder of Multi30k)"
	@echo "make builtin      train the model that ships inside the package again"
	@echo "make picture      make the picture in the README again"

# torch first and alone: an unpinned torch, asked for by another package, brings gigabytes of CUDA
# libraries along.
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

# What some tests need and pip does not have: strace kills a training inside a system call, chromium
# opens the page, node runs its model. Where one cannot be installed, a message says so, and pytest
# names the tests it skips.
.venv/.tools:
	@mkdir -p .venv
	@for tool in strace:strace chromium:chromium node:nodejs; do \
	  command -v $${tool%:*} >/dev/null && continue; \
	  { apt-get update -qq && apt-get install -qq -y --no-install-recommends $${tool#*:}; } >/dev/null 2>&1 \
	    || echo "$${tool%:*} is not installed and cannot be: the tests that need it are skipped"; \
	done
	@touch $@

# One process for each core, at most four; a process that is done takes tests from another.
test: check .venv/.tools
	$(BIN)/pytest -m "not slow" --numprocesses logical --maxprocesses 4 --dist worksteal

test-slow: .venv/.dev .venv/.tools
	$(BIN)/pytest -m slow

mutants: .venv/.dev .venv/.tools
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only $(ONLY))

bench-lm: .venv/.run
	$(BIN)/python bench/lm.py $(if $(DATA),--data $(DATA))

bench-train: .venv/.run
	@$(PIP) -r bench/requirements.txt
	$(BIN)/python bench/train.py $(if $(DATA),--data $(DATA))

bench-decode: .venv/.run
	@$(PIP) -r bench/requirements.txt
	$(BIN)/python bench/decode.py $(if $(DATA),--data $(DATA))

builtin: .venv/.run
	GOMP_SPINCOUNT=10000 $(BIN)/python -m transduce.training.builtin

picture: .venv/.dev .venv/.tools
	GOMP_SPINCOUNT=10000 $(BIN)/python docs/inside_picture.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis
