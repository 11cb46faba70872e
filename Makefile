# `make demo` and `make test` do everything on a fresh machine; the environment is made when it is first needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Where pip finds PyTorch. On x86-64 Linux the plain index serves a CUDA build of several GB; for the CPU build use
#   make demo PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_FLAGS ?=

.PHONY: demo test test-deploy test-ray lint audit bench bench-peers clean

demo: $(READY)
	$(BIN)/fedtempo compare configs/fedhusky.toml --strategies fedhusky,hybrid,sequential,fedavg --seeds 1-3 --out runs/demo-$$(date +%Y%m%d-%H%M%S)

test: lint
	$(BIN)/python -m pytest -n 2

test-deploy: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m deploy tests/deploy

test-ray: .venv-ray/.ready
	.venv-ray/bin/python -m pytest -m ray tests/runtime/test_executors_ray.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Asks PyPI about every pinned release (PIP_AUDIT_VULNERABILITY_SERVICE=osv: OSV.dev). --strict: one that cannot be asked
# about, as behind a mirror that has files alone, is a failure too.
audit: $(READY)
	$(BIN)/python -m pip check
	$(BIN)/pip-audit --strict --disable-pip --no-deps --progress-spinner off -r requirements.lock

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

# Flower needs older versions of some packages, and Ray takes 250 MB: their environments lie over the other one.
.venv-%/.ready: requirements-%.lock $(READY)
	$(BIN)/python -m venv --without-pip $(@D)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(\"" + sysconfig.get_path("purelib") + "\")")' \
	  > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check $(PIP_FLAGS) --no-deps -r $<
	touch $@

clean:
	rm -rf $(VENV) .venv-flower .venv-ray benchmarks/peers/*/.venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
