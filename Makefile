# `make demo` and `make test` work on a fresh machine: they create the environment when it is first needed. Targets with
# several steps end with a line that summarises the result (tools/steps.sh).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Options for pip, which say where to find PyTorch. On x86-64 Linux, the default is a CUDA build of several GB; for the CPU build use
#   make demo PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_FLAGS ?=

# Settings that keep PyTorch, MKL, oneDNN, OpenBLAS and NumPy from using the CPU's best instructions, so that they round
# differently: the oldest that they support, and AVX2 on CPUs with AVX-512. Tests that compare trained models must pass with each.
OLDEST := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Prescott 'NPY_DISABLE_CPU_FEATURES=X86_V4 X86_V3'
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES=X86_V4
NUMERIC := tests/api tests/deploy/client tests/docs tests/studies tests/fleet tests/golden tests/learning tests/parts tests/runs tests/runtime tests/strategies tests/test_*.py

LOCKS := $(sort $(wildcard requirements*.lock))

INSTALL := "installing what is missing" "$(MAKE) --silent $(READY)"
LINT := "ruff check" "$(BIN)/ruff check ." "ruff format" "$(BIN)/ruff format --check ." mypy "$(BIN)/mypy" "import contracts" "$(BIN)/lint-imports"

.PHONY: demo test test-long test-numeric test-fashion-mnist test-deploy test-chaos test-deploy-slow test-docker test-ray test-data test-transformers test-tune lint audit hashes bench bench-peers docs docs-serve package ci clean

demo:
	@sh tools/steps.sh "make demo" $(INSTALL) "comparing four strategies, about a minute" \
	  "$(BIN)/fedtempo demo"

test:
	@sh tools/steps.sh "make test" $(INSTALL) $(LINT) "tests, 5 to 10 minutes" "$(BIN)/python -m pytest -n 2"

# What `make test` leaves out to take less than ten minutes: tests of many seconds, and the engine with more strategies.
test-long: $(READY)
	$(BIN)/python -m pytest -n 2 -m long tests

# Tests that train, or whose results could depend on rounding, with other CPU instructions.
test-numeric:
	@sh tools/steps.sh "make test-numeric" $(INSTALL) \
	  "do the oldest instructions round otherwise?" "env $(OLDEST) $(BIN)/python -m tools.rounding --must-differ" \
	  "tests with the oldest instructions" "env $(OLDEST) $(BIN)/python -m pytest -n 2 $(NUMERIC)" \
	  "does AVX2 round otherwise?" "env $(AVX2) $(BIN)/python -m tools.rounding" \
	  "tests with AVX2" "env $(AVX2) $(BIN)/python -m pytest -n 2 $(NUMERIC)"

# Tests that need Fashion-MNIST and that `make test` skips without it, except slow ones.
test-fashion-mnist: $(READY)
	$(BIN)/python -m pytest -rs -m 'fashion_mnist and not slow' tests/data tests/studies tests/cli

# Tests with real processes on 127.0.0.1. The slow ones deploy every strategy, and compare predictions with deployments.
test-deploy: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m 'deploy and not slow' tests/deploy
	.venv-flower/bin/python -m pytest tests/cli/test_help.py  # this environment has other versions of Typer and Click

# Ten minutes of random faults in simulations and deployments. CHAOS=SEED chooses the faults (default: new ones each time),
# CHAOS=SEED:TRIAL repeats a run that failed.
test-chaos: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m chaos tests/chaos

test-deploy-slow: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m 'deploy and slow' tests/deploy

# Run deploy/compose.yaml in containers. Needs a Docker daemon and takes minutes. BUILD_FLAGS: options for `docker build`.
BUILD_FLAGS ?=
test-docker: $(READY)
	BUILD_FLAGS="$(BUILD_FLAGS)" $(BIN)/python -m pytest -m docker tests/deploy/test_containers.py

test-ray: .venv-ray/.ready
	.venv-ray/bin/python -m pytest -m ray tests/runtime/test_executors_ray.py tests/parts/test_own_parts_in_workers.py tests/runtime/test_numbers.py tests/studies/test_sweep_on_ray.py tests/studies/papers/test_contest_on_ray.py

# Tests of data sets that need the libraries datasets or h5py, and that `make test` skips without them.
test-data: .venv-data/.ready
	.venv-data/bin/python -m pytest -rs -m 'not slow' tests/data/test_hub_library.py tests/data/test_sources.py tests/data/formats "tests/docs/test_blocks.py::test_blocks_run[docs/own-data.md]"

test-transformers: .venv-transformers/.ready
	.venv-transformers/bin/python -m pytest -rs -m transformers tests

test-tune: .venv-tune/.ready
	.venv-tune/bin/python -m pytest -rs -m tune tests/studies tests/cli tests/docs

# Build the site in site/ from docs/ and the code. --strict makes broken links an error. The notebooks run in a Jupyter kernel,
# as a reader would run them.
docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv-docs/.ready
	.venv-docs/bin/python -m mkdocs build --strict --quiet
	.venv-docs/bin/python -m tools.site.check site
	.venv-docs/bin/python -m pytest tests/docs/test_notebooks.py tests/test_locks.py

docs-serve: .venv-docs/.ready
	.venv-docs/bin/python -m mkdocs serve --dev-addr 127.0.0.1:8800

# Build the wheel and the source distribution in dist/, and try each in a separate environment.
package: $(READY)
	$(BIN)/python -m tools.package dist $(PIP_FLAGS)

# Everything that a release must pass.
ci: test test-long docs package
	$(BIN)/python -m pytest -m slow tests/docs

lint:
	@sh tools/steps.sh "make lint" $(INSTALL) $(LINT)

# Check every pinned release for known problems. AUDIT_FLAGS=--strict: releases that cannot be checked are a failure, too.
AUDIT_FLAGS ?=
audit: $(READY)
	$(BIN)/python -m pip check
	$(BIN)/python -m tools.audit $(AUDIT_FLAGS) $(LOCKS)

# Write the hashes of all files of the pinned releases into the locks, after a change of versions. WHEELS="--wheel FILE ...": also those
# of files that the index does not have, such as PyTorch's CPU builds.
WHEELS ?=
hashes: .venv-flower/.ready
	$(BIN)/python -m tools.hashes .venv-flower/bin/uv $(LOCKS) $(WHEELS)

# If a peer cannot be installed, its figure has no value.
bench: $(READY)
	-PIP_FLAGS="$(PIP_FLAGS)" $(BIN)/python -m benchmarks.peers.environments
	$(BIN)/python -m benchmarks.run

bench-peers: $(READY)
	PIP_FLAGS="$(PIP_FLAGS)" $(BIN)/python -m benchmarks.peers.environments

$(READY): requirements.lock requirements-cuda.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedtempo needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "Making the environment $(VENV) with $$($(PYTHON) --version)."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing $$(grep -c == requirements.lock) packages into $(VENV), once: 1.7 GB and several minutes with the CPU build of PyTorch," \
	  "several GB more with the CUDA build. The output of pip follows."
	@sh tools/torch.sh $(BIN)/python requirements.lock $(PIP_FLAGS)
	@$(BIN)/python -m pip install --disable-pip-version-check $(PIP_FLAGS) --no-deps --require-hashes -r requirements.lock
	@if $(BIN)/python -m pip show torch | grep -q nvidia-; then \
	  $(BIN)/python -m pip install --disable-pip-version-check $(PIP_FLAGS) --no-deps --require-hashes -r requirements-cuda.lock; fi
	@echo "Installing fedtempo itself, from this folder."
	@$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)
	@echo "The environment is ready."

# Flower needs older versions of some packages, Ray takes 250 MB, transformers 100 MB, readers of data sets 40 MB, Optuna a database library, and only the docs need MkDocs. So each has an environment on
# top of the main one.
.venv-%/.ready: requirements-%.lock $(READY)
	@echo "Making the environment $(@D) over $(VENV): $$(grep -c == $<) packages, once. The output of pip follows."
	@$(BIN)/python -m venv --without-pip $(@D)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(\"" + sysconfig.get_path("purelib") + "\")")' \
	  > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	@$(BIN)/python -m pip --python $(@D)/bin/python install --disable-pip-version-check $(PIP_FLAGS) --no-deps --require-hashes -r $<
	@touch $@
	@echo "The environment $(@D) is ready."

clean:
	rm -rf $(VENV) .venv-flower .venv-ray .venv-data .venv-transformers .venv-tune .venv-docs site dist benchmarks/peers/*/.venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
