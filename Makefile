# The way in: `make demo` on a fresh machine. Everything goes into .venv and .tools in this folder; nothing needs root.

PYTHON ?= python3
BIN := .venv/bin
# The version of uv that writes the lock files; it is needed for nothing else, so it is not among the dependencies.
UV := uv==0.13.8

.DEFAULT_GOAL := help
.PHONY: help setup demo test check run bench-pools bench-restart bench-steadiness bench-simulator arena chart \
	dashboards pictures proto lock clean tools

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-16s %s\n", $$1, $$2 }'

setup: .venv/.ready ## Make .venv and fetch Prometheus, grpcurl, helm and kubectl into .tools
	@$(BIN)/python -m tools.fetch_tools

demo: .venv/.ready ## Watch a simulated fleet being scaled, with a real Prometheus (DEMO_ARGS='--help' for more)
	@$(BIN)/python -m tools.fetch_tools --quiet --demo
	@echo "Starting the demo"
	@$(BIN)/vllm-scaler demo $(DEMO_ARGS)

test: .venv/.ready tools ## Run all tests but the slow ones (TEST_ARGS='-m slow' for those)
	@echo "Running the tests"
	@$(BIN)/python -m pytest -m "not slow" $(TEST_ARGS)

check: .venv/.ready ## Run the linters: ruff, mypy --strict, import-linter
	@echo "Linting with ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "Checking types with mypy"
	@$(BIN)/mypy
	@echo "Checking who imports whom with import-linter"
	@$(BIN)/lint-imports --no-logo

bench-pools: .venv/.ready ## Measure what a tick costs for 100 to 10000 pools (BENCH_ARGS=--quick for less)
	@$(BIN)/python -m benchmarks.pools $(BENCH_ARGS)

bench-restart: .venv/.ready ## Measure how soon pools have decisions after a start (BENCH_ARGS=--quick for less)
	@$(BIN)/python -m benchmarks.restart $(BENCH_ARGS)

run: .venv/.ready ## Serve KEDA from this machine (RUN_ARGS='--prometheus-url ...', RUN_ARGS='--help' for more)
	@echo "Serving KEDA's external scaler"
	@$(BIN)/vllm-scaler serve $(RUN_ARGS)

bench-steadiness: .venv/.ready ## Run the law against steady loads and steps in a simulated cluster (BENCH_ARGS='--quick')
	@$(BIN)/python -m benchmarks.steadiness $(BENCH_ARGS)

bench-simulator: .venv/.ready ## Measure how fast the simulator is (BENCH_ARGS='--traces FOLDER' for recorded traffic too)
	@$(BIN)/python -m benchmarks.simulator $(BENCH_ARGS)

dashboards: .venv/.ready ## Write the dashboards' JSON from grafana/
	@$(BIN)/python -m grafana.build

pictures: .venv/.ready tools ## Draw docs/pictures from a run of the demo (PICTURES_ARGS='--run FOLDER' from a kept one)
	@$(BIN)/python -m tools.pictures $(PICTURES_ARGS)

arena: .venv/.ready ## Run our law and those of others on the same requests (ARENA_ARGS='--quick', '--help' for more)
	@echo "Running the arena"
	@$(BIN)/python -m benchmarks.arena $(ARENA_ARGS)

proto: .venv/.ready ## Generate scaler/protos from protos/
	@$(BIN)/python -m tools.proto
	@echo "scaler/protos is up to date"

chart: .venv/.ready tools ## Write what follows from the chart: its table of values, its schema, and deploy/manifests
	@$(BIN)/python -m tools.chart_reference
	@$(BIN)/python -m tools.kustomize_base
	@echo "The chart's README and schema, and deploy/manifests, are up to date"

lock: ## Write requirements*.txt anew from pyproject.toml (LOCK_ARGS=--upgrade for newer releases)
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --upgrade --target .tools/uv $(UV)
	@$(COMPILE) --output-file requirements.txt
	@$(COMPILE) --group dev --constraint requirements.txt --output-file requirements-dev.txt
	@echo "requirements.txt and requirements-dev.txt are up to date"

# One lock for every Python and processor that is supported. Without options of this machine, no address gets into it.
COMPILE = .tools/uv/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-config --system-certs --custom-compile-command "make lock" $(LOCK_ARGS)

clean: ## Remove everything that make has made
	rm -rf .venv .tools build dist demo-output arena-results
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Not a file: what is missing is looked for each time, since variables and PATH may name other programs than last time.
tools: .venv/.ready
	@$(BIN)/python -m tools.fetch_tools --quiet

# The script writes it last, so that a setup that was stopped is gone through again.
.venv/.ready: pyproject.toml requirements-dev.txt tools/make_venv.py
	@$(PYTHON) tools/make_venv.py
