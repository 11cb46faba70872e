# `make demo` and `make test` do everything on a fresh machine; the environment is made when it is first needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Where pip finds PyTorch. On x86-64 Linux the plain index serves a CUDA build of several GB; for the CPU build use
#   make demo PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_FLAGS ?=

.PHONY: demo test test-deploy test-deploy-slow test-docker test-ray lint audit bench bench-peers docs docs-serve package ci clean

demo: $(READY)
	$(BIN)/fedtempo demo

test: lint
	$(BIN)/python -m pytest -n 2

# Real processes on 127.0.0.1. The slow ones deploy every strategy, and compare predictions with what comes about.
test-deploy: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m 'deploy and not slow' tests/deploy
	.venv-flower/bin/python -m pytest tests/test_help.py  # it has other versions of Typer and Click

test-deploy-slow: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m 'deploy and slow' tests/deploy

# deploy/compose.yaml in containers; needs a Docker daemon and takes minutes. BUILD_FLAGS: for `docker build`.
BUILD_FLAGS ?=
test-docker: $(READY)
	BUILD_FLAGS="$(BUILD_FLAGS)" $(BIN)/python -m pytest -m docker tests/deploy/test_containers.py

test-ray: .venv-ray/.ready
	.venv-ray/bin/python -m pytest -m ray tests/runtime/test_executors_ray.py tests/test_own_parts_in_workers.py

# The pages below site/, from docs/ and from the code. --strict: a link that leads nowhere is an error. The notebooks run in
# a kernel of Jupyter's, as a reader would run them.
docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv-docs/.ready
	.venv-docs/bin/python -m mkdocs build --strict --quiet
	.venv-docs/bin/python -m tools.site.check site
	.venv-docs/bin/python -m pytest tests/test_notebooks.py tests/test_locks.py

docs-serve: .venv-docs/.ready
	.venv-docs/bin/python -m mkdocs serve --dev-addr 127.0.0.1:8800

# The wheel and the source distribution in dist/, each tried in an environment of its own.
package: $(READY)
	$(BIN)/python -m tools.package dist $(PIP_FLAGS)

# What a release must pass.
ci: test docs package
	$(BIN)/python -m pytest -m slow tests/docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What is known against every pinned release. AUDIT_FLAGS=--strict: one about which nobody can be asked is a failure too.
AUDIT_FLAGS ?=
audit: $(READY)
	$(BIN)/python -m pip check
	$(BIN)/python -m tools.audit $(AUDIT_FLAGS) requirements.lock requirements-flower.lock requirements-ray.lock requirements-docs.lock

# A peer that cannot be installed is a figure without a value.
bench: $(READY)
	-PIP_FLAGS="$(PIP_FLAGS)" $(BIN)/python -m benchmarks.peers.environments
	$(BIN)/python -m benchmarks.run

bench-peers: $(READY)
	PIP_FLAGS="$(PIP_FLAGS)" $(BIN)/python -m benchmarks.peers.environments

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedtempo needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(READY)

# Flower needs older versions of some packages, Ray takes 250 MB, and nobody else needs MkDocs: their environments lie over
# the other one.
.venv-%/.ready: requirements-%.lock $(READY)
	$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(\"" + sysconfig.get_path("purelib") + "\")")' \
	  > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check $(PIP_FLAGS) --no-deps -r $<
	touch $@

clean:
	rm -rf $(VENV) .venv-flower .venv-ray .venv-docs site dist benchmarks/peers/*/.venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
