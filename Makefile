# `make demo` and `make test` do everything on a fresh machine; the environment is made when it is first needed. Targets of
# several steps end with a line that says how it went (tools/steps.sh).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Where pip finds PyTorch. On x86-64 Linux the plain index serves a CUDA build of several GB; for the CPU build use
#   make demo PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_FLAGS ?=

# Other instructions than a processor's best, so that PyTorch, MKL, oneDNN, OpenBLAS and NumPy round otherwise: the oldest that
# they know, and AVX2 where there is AVX-512. Tests that compare what was trained must pass with each.
OLDEST := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Prescott 'NPY_DISABLE_CPU_FEATURES=X86_V4 X86_V3'
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES=X86_V4
NUMERIC := tests/api tests/deploy/client tests/docs tests/studies tests/fleet tests/golden tests/learning tests/parts tests/runs tests/runtime tests/strategies tests/test_*.py

INSTALL := "installing what is missing" "$(MAKE) --silent $(READY)"
LINT := "ruff check" "$(BIN)/ruff check ." "ruff format" "$(BIN)/ruff format --check ." mypy "$(BIN)/mypy" "import contracts" "$(BIN)/lint-imports"

.PHONY: demo test test-numeric test-fashion-mnist test-deploy test-deploy-slow test-docker test-ray lint audit bench bench-peers docs docs-serve package ci clean

demo:
	@sh tools/steps.sh "make demo" $(INSTALL) "comparing four strategies, about a minute" \
	  "$(BIN)/fedtempo demo"

test:
	@sh tools/steps.sh "make test" $(INSTALL) $(LINT) "tests, 5 to 10 minutes" "$(BIN)/python -m pytest -n 2"

# The tests that train, or whose results could hang on rounding, with other instructions.
test-numeric:
	@sh tools/steps.sh "make test-numeric" $(INSTALL) \
	  "do the oldest instructions round otherwise?" "env $(OLDEST) $(BIN)/python -m tools.rounding --must-differ" \
	  "tests with the oldest instructions" "env $(OLDEST) $(BIN)/python -m pytest -n 2 $(NUMERIC)" \
	  "does AVX2 round otherwise?" "env $(AVX2) $(BIN)/python -m tools.rounding" \
	  "tests with AVX2" "env $(AVX2) $(BIN)/python -m pytest -n 2 $(NUMERIC)"

# What needs Fashion-MNIST, and is skipped elsewhere; of the slow ones none.
test-fashion-mnist: $(READY)
	$(BIN)/python -m pytest -rs -m 'fashion_mnist and not slow' tests/data tests/studies tests/cli

# Real processes on 127.0.0.1. The slow ones deploy every strategy, and compare predictions with what comes about.
test-deploy: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m 'deploy and not slow' tests/deploy
	.venv-flower/bin/python -m pytest tests/cli/test_help.py  # it has other versions of Typer and Click

test-deploy-slow: .venv-flower/.ready
	.venv-flower/bin/python -m pytest -m 'deploy and slow' tests/deploy

# deploy/compose.yaml in containers; needs a Docker daemon and takes minutes. BUILD_FLAGS: for `docker build`.
BUILD_FLAGS ?=
test-docker: $(READY)
	BUILD_FLAGS="$(BUILD_FLAGS)" $(BIN)/python -m pytest -m docker tests/deploy/test_containers.py

test-ray: .venv-ray/.ready
	.venv-ray/bin/python -m pytest -m ray tests/runtime/test_executors_ray.py tests/parts/test_own_parts_in_workers.py

# The pages below site/, from docs/ and from the code. --strict: a link that leads nowhere is an error. The notebooks run in
# a kernel of Jupyter's, as a reader would run them.
docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv-docs/.ready
	.venv-docs/bin/python -m mkdocs build --strict --quiet
	.venv-docs/bin/python -m tools.site.check site
	.venv-docs/bin/python -m pytest tests/docs/test_notebooks.py tests/test_locks.py

docs-serve: .venv-docs/.ready
	.venv-docs/bin/python -m mkdocs serve --dev-addr 127.0.0.1:8800

# The wheel and the source distribution in dist/, each tried in an environment of its own.
package: $(READY)
	$(BIN)/python -m tools.package dist $(PIP_FLAGS)

# What a release must pass.
ci: test docs package
	$(BIN)/python -m pytest -m slow tests/docs

lint:
	@sh tools/steps.sh "make lint" $(INSTALL) $(LINT)

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
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedtempo needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "Making the environment $(VENV) with $$($(PYTHON) --version)."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing $$(grep -c == requirements.lock) packages into $(VENV), once: 1.7 GB and some minutes with the CPU build of PyTorch," \
	  "several GB more with the CUDA build. What pip says follows."
	@$(BIN)/python -m pip install --disable-pip-version-check $(PIP_FLAGS) -r requirements.lock
	@echo "Installing fedtempo itself, from this folder."
	@$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)
	@echo "The environment is ready."

# Flower needs older versions of some packages, Ray takes 250 MB, and nobody else needs MkDocs: their environments lie over
# the other one.
.venv-%/.ready: requirements-%.lock $(READY)
	@echo "Making the environment $(@D) over $(VENV): $$(grep -c == $<) packages, once. What pip says follows."
	@$(BIN)/python -m venv --without-pip $(@D)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(\"" + sysconfig.get_path("purelib") + "\")")' \
	  > $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	@$(BIN)/python -m pip --python $(@D)/bin/python install --disable-pip-version-check $(PIP_FLAGS) --no-deps -r $<
	@touch $@
	@echo "The environment $(@D) is ready."

clean:
	rm -rf $(VENV) .venv-flower .venv-ray .venv-docs site dist benchmarks/peers/*/.venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
