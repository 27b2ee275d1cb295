# Each target sets up what it needs, once, and again when that has changed.
#   make run ARGS="--help"      make run PYTHON=python3.12      make test PYTEST_ARGS="-k retained"

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
ARGS ?=
PYTEST_ARGS ?=
SPARKS ?= 4.0.0 4.1.0 4.2.0
# With it every broker that a test starts, and every worker of pytest, would compile the sources once more.
unexport PYTHONDONTWRITEBYTECODE
# Four side by side keep two processors busy. Tests of a file share its fixtures.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMPS := $(VENV)/.sluice
PACKAGES := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	extras = (project["optional-dependencies"][name] for name in ("http", "postgres", "emqx", "report", "browser", "bench", "dev")); \
	print(*project["dependencies"], *(line for extra in extras for line in extra), sep="\n")
WHEELS := build/wheel
WHEEL = $$(ls $(WHEELS)/sluice_mqtt-*.whl)
SOURCES := $(shell find protocol session broker config spark_jobs -type f \
	-not -name '*.pyc' -not -name '.*' 2>/dev/null) setup.py pyproject.toml LICENSE README.md

# Run from a folder without sources, so that it is the installed package that answers.
HOW := $(CURDIR)/$(BIN)/python -I -c "import importlib.util as u; s = u.find_spec('protocol.decoder'); \
	print('compiled' if s and s.origin and not s.origin.endswith('.py') else 'interpreted')"

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(STAMPS)/run ## Start the broker on loopback; ./metrics and ./journal are its files. ARGS: flags of `sluice run`.
	SLUICE_METRICS__DIRECTORY="$${SLUICE_METRICS__DIRECTORY:-metrics}" \
	SLUICE_PERSISTENCE__DIRECTORY="$${SLUICE_PERSISTENCE__DIRECTORY:-journal}" $(BIN)/sluice run --dashboard $(ARGS)

.PHONY: test
test: $(STAMPS)/venv ## Lint, check types, run all tests interpreted, then compiled.
	@# Compiling takes minutes of one processor: meanwhile everything runs that needs no wheel.
	@# pytest rewrites asserts once, and keeps them; else each of the processes below would, at the same time.
	@$(MAKE) --no-print-directory $(STAMPS)/wheel & wheel=$$!; \
	trap 'kill $$wheel 2>/dev/null || true' EXIT; \
	$(MAKE) --no-print-directory lint types; \
	PYTHONPATH="$(CURDIR)" $(BIN)/pytest --collect-only --quiet >/dev/null || true; \
	$(MAKE) --no-print-directory interpreted; \
	wait $$wheel; \
	$(MAKE) --no-print-directory compiled

.PHONY: interpreted
interpreted: $(STAMPS)/packages ## All tests on the sources, before anything is compiled.
	PYTHONPATH="$(CURDIR)" SLUICE_EXPECT=interpreted $(BIN)/pytest $(SIDE_BY_SIDE) $(PYTEST_ARGS)

.PHONY: compiled
compiled: $(STAMPS)/test ## The tests of what is compiled, on the installed wheel.
	@if [ "$$(cd / && $(HOW))" = compiled ]; then \
		echo 'SLUICE_EXPECT=compiled $(BIN)/pytest -m "not once and not spark" $(SIDE_BY_SIDE) $(PYTEST_ARGS)'; \
		env -u PYTHONPATH SLUICE_EXPECT=compiled $(BIN)/pytest -m "not once and not spark" $(SIDE_BY_SIDE) $(PYTEST_ARGS); \
	else \
		echo "The compiled run is left out: the wheel was built without a C compiler (apt install gcc python3-dev)."; \
	fi

.PHONY: lint
lint: $(STAMPS)/packages ## Check style with ruff.
	$(BIN)/ruff check

.PHONY: types
types: $(STAMPS)/packages ## Check types with mypy.
	$(BIN)/mypy

.PHONY: slow
slow: $(STAMPS)/test ## The tests that take minutes, which `make test` leaves out: Spark clusters, killed compactions.
	PYTHONPATH="$(CURDIR)" SLUICE_EXPECT=interpreted $(BIN)/pytest -m slow $(PYTEST_ARGS)

.PHONY: spark-versions
spark-versions: $(STAMPS)/packages ## The tests that start Spark with older versions of it. SPARKS="4.0.4".
	@# Before 4.1 pyspark leaves sockets to the garbage collector.
	for version in $(SPARKS); do \
		test -d build/spark/$$version || $(PIP) install --quiet --target build/spark/$$version pyspark==$$version; \
		PYTHONPATH="$(CURDIR)/build/spark/$$version:$(CURDIR)" SLUICE_EXPECT=interpreted $(BIN)/pytest \
			-m "spark and not slow" -W ignore::ResourceWarning tests/spark_jobs $(PYTEST_ARGS); \
	done

.PHONY: conformance
conformance: $(STAMPS)/test ## Test Sluice, or ARGS="--host H --port P", against every statement of MQTT 3.1.1 and 5.0.
	$(BIN)/python -m tests.conformance $(ARGS)

.PHONY: model
model: $(STAMPS)/test ## Compare the session with the model of its rules. ARGS="--steps 1000000 --seed 7", "--kept --groups".
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m tests.model $(ARGS)

.PHONY: simulation
simulation: $(STAMPS)/test ## Run several cells with crashes and broken links, seed by seed. ARGS="--seeds 20000", "--seed 7".
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m tests.simulation $(ARGS)

.PHONY: fuzz
fuzz: $(STAMPS)/fuzz ## Search for input that breaks Sluice. ARGS="--seconds 600", "--replay FILE", "--help".
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m tests.fuzz $(ARGS)

.PHONY: matrix
matrix: $(STAMPS)/test ## Run third-party clients through all cases. ARGS="--clients paho,mqttjs --rounds 10 --cases burst".
	$(BIN)/python -m tests.clients $(ARGS)

.PHONY: logins
logins: $(STAMPS)/test ## Have each client log in by each method, over each transport, behind real proxies. ARGS="--cells wss-haproxy".
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m tests.clients.logins $(ARGS)

.PHONY: rules
rules: $(STAMPS)/test ## Play generated rule sets through a broker, beside a reference. ARGS="--sets 5000 --seed 7".
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m tests.rules $(ARGS)

.PHONY: imports
imports: $(STAMPS)/test ## Import generated configurations of EMQX and Mosquitto: none opens more. ARGS="--pairs 2000 --seed 7".
	PYTHONPATH="$(CURDIR)" $(BIN)/python -m tests.imports $(ARGS)

.PHONY: durability
durability: $(STAMPS)/test ## Kill a broker under load, and compare with what it has acknowledged. ARGS="--rounds 300 --seed 7".
	$(BIN)/python -m tests.durability $(ARGS)

.PHONY: powercuts
powercuts: $(STAMPS)/test ## Cut the power at every moment of a recorded run, and recover. ARGS="--images 5000 --seed 7".
	$(BIN)/python -m tests.durability.powercuts $(ARGS)

.PHONY: damage
damage: $(STAMPS)/test ## Damage a journal at every byte, and start on it. ARGS="--share 0.1 --seed 7".
	$(BIN)/python -m tests.durability.damage $(ARGS)

.PHONY: diskfaults
diskfaults: $(STAMPS)/test ## Let every call of a broker to its disk fail, one in each run. ARGS="--kinds eio,full --every 5".
	$(BIN)/python -m tests.durability.faults $(ARGS)

.PHONY: ledger
ledger: $(STAMPS)/test ## Account for millions of deliveries, under kills, full disks and queues. ARGS="--deliveries 100000 --seed 7".
	$(BIN)/python -m tests.ledger $(ARGS)

.PHONY: soak
soak: $(STAMPS)/test ## Run many sessions on a bad network, and check the counters. ARGS="--minutes 60", "--seed 7", "--help".
	$(BIN)/python -m tests.soak $(ARGS)

.PHONY: bridge-soak
bridge-soak: $(STAMPS)/test ## Soak a bridge: a bad network, kill -9 of both brokers, ledgers outside. ARGS="--rounds 20", "--help".
	$(BIN)/python -m tests.soak.bridge $(ARGS)

.PHONY: cells-soak
cells-soak: $(STAMPS)/test ## Kill -9 a random worker again and again, ledgers outside. ARGS="--minutes 10 --workers 4 --seed 7".
	$(BIN)/python -m tests.soak.cells $(ARGS)

.PHONY: demo
demo: $(STAMPS)/test ## Run the experiment: a slow subscriber with the QoS 0 gate off, then on, and the report on both.
	$(BIN)/python tests/bench/demo.py $(ARGS)

.PHONY: bench
bench: $(STAMPS)/test ## Measure Sluice beside the other brokers that are installed. ARGS: flags of the runner.
	$(BIN)/python tests/bench/run.py $(ARGS)

.PHONY: fairness
fairness: $(STAMPS)/test ## Play overload on Sluice and the other brokers, by paho-mqtt. ARGS="--page fairness.html", "--help".
	$(BIN)/python -m tests.fairness $(ARGS)

.PHONY: bench-cells
bench-cells: $(STAMPS)/test ## Measure what several workers cost beside one process. ARGS="--workers 2", "--help".
	$(BIN)/python tests/bench/cells.py $(ARGS)

.PHONY: bench-page
bench-page: $(STAMPS)/test ## Make a page with bars of what make bench ARGS="--json bench.json" has written. ARGS="bench.json bench.html".
	$(BIN)/python tests/bench/page.py $(ARGS)

.PHONY: bench-instructions
bench-instructions: $(STAMPS)/test ## Count instructions for each delivery, which hardly depend on other programs. ARGS="--before REVISION".
	$(BIN)/python tests/bench/callgrind.py $(ARGS)

.PHONY: bench-memory
bench-memory: $(STAMPS)/test ## Measure what connections, subscriptions and retained messages cost. ARGS="--rounds 3 --check".
	$(BIN)/python tests/bench/memory.py $(ARGS)

.PHONY: bench-journal
bench-journal: $(STAMPS)/test ## Measure what a journal costs, beside the disk's own sync. ARGS="--others nats,rabbitmq".
	$(BIN)/python tests/bench/journal.py $(ARGS)

.PHONY: report
report: $(STAMPS)/report ## Make the report of ./metrics in ./report. ARGS: flags of `sluice report`.
	$(BIN)/sluice report --metrics metrics --out report $(ARGS)

.PHONY: install
install: $(STAMPS)/run ## Only set up: environment, dependencies, the broker, compiled if there is a compiler.

.PHONY: rebuild
rebuild: ## Build and install again, as when a C compiler has come.
	rm -rf $(STAMPS)/wheel build
	@$(MAKE) --no-print-directory install

.PHONY: clean
clean: ## Remove the environment and everything that was built or cached.
	rm -rf $(VENV) build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the targets need

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Sluice needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# What Sluice and its tests import. The interpreted tests, ruff and mypy need no wheel.
$(STAMPS)/packages: pyproject.toml | $(STAMPS)/venv
	@echo "Installing what the tests, benches and the report need (1.2 GB, once) ..."
	$(BIN)/python -c '$(PACKAGES)' >$(STAMPS)/requirements.txt
	$(PIP) install --quiet --requirement $(STAMPS)/requirements.txt
	@touch $@

$(STAMPS)/wheel: $(SOURCES) | $(STAMPS)/venv
	@echo "Building Sluice (compiling takes 3 to 6 minutes of one processor, silently, once; SLUICE_COMPILE=0 leaves it out) ..."
	@rm -rf $(WHEELS) build/lib* build/bdist*
	$(PIP) wheel --quiet --no-deps --wheel-dir $(WHEELS) .
	@touch $@

$(STAMPS)/run: $(STAMPS)/wheel
	$(PIP) install --quiet "$(WHEEL)"
	$(PIP) install --quiet --no-deps --force-reinstall "$(WHEEL)"
	@how=$$(cd / && $(HOW)); echo "Sluice is installed, $$how."; \
	if [ "$$how" = interpreted ] && [ "$${SLUICE_COMPILE:-}" != 0 ]; then \
		echo "It runs several times faster compiled: apt install gcc python3-dev, then make rebuild."; fi
	@touch $@

$(STAMPS)/report: $(STAMPS)/run
	@echo "Installing what the report needs (950 MB, once) ..."
	$(PIP) install --quiet "$(WHEEL)[report]"
	@touch $@

$(STAMPS)/test: $(STAMPS)/run $(STAMPS)/packages
	@touch $@

# Without atheris, which not every machine can have, fuzzing does not see what code it reaches.
$(STAMPS)/fuzz: $(STAMPS)/test
	$(PIP) install --quiet --only-binary atheris "$(WHEEL)[fuzz]" || echo "atheris cannot be installed: fuzzing blindly."
	@touch $@
