# make help lists the targets.

PYTHON ?= python3
ARGS ?=
IMAGE ?=
WEBHOOK_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo image install test lint controlplane cluster bench lock clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.stamp ## make .venv with poolwarden and its development tools, in pinned versions

$(VENV)/.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "*** $(PYTHON) is not Python 3.11 or newer: install one and run make PYTHON=/path/to/it" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	  || { echo "*** $(PYTHON) cannot make a virtual environment: install its venv package (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "Installing poolwarden and its development tools into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --constraint constraints.txt pip
	@$(PIP) install --quiet --constraint constraints.txt --build-constraint constraints.txt --editable . --group dev
	@touch $@

demo: venv ## show what poolwarden does, on files
	$(BIN)/python examples/demo.py

named = $(if $(IMAGE),,$(error say which image: make $@ IMAGE=registry.example/poolwarden:0.1.0))

image: ## build the image with podman or docker, and push it (IMAGE=registry.example/poolwarden:0.1.0)
	@$(named)tool=$$(command -v podman || command -v docker) || { echo "*** neither podman nor docker is here" >&2; exit 1; }; \
	set -ex; "$$tool" build --file Containerfile --tag "$(IMAGE)" .; "$$tool" push "$(IMAGE)"

# What kubectl applies. The image is patched in whole, with tag or digest.
CONTAINER := /spec/template/spec/containers/0
define INSTALLATION
resources: [../../manifests]
patches:
  - target: {kind: Deployment}
    patch: '- {op: replace, path: $(CONTAINER)/image, value: "$(IMAGE)"}'
$(foreach word,$(WEBHOOK_ARGS),
  - target: {kind: Deployment, name: poolwarden-webhook}
    patch: '- {op: add, path: $(CONTAINER)/args/-, value: "$(word)"}'
)
endef
export INSTALLATION

install: ## install gc, which only observes, and the webhook into the current context's cluster (IMAGE=..., and WEBHOOK_ARGS=... if need be)
	@$(named)mkdir -p build/install
	@printf '%s\n' "$$INSTALLATION" > build/install/kustomization.yaml
	kubectl apply --kustomize build/install
	kubectl rollout status --namespace poolwarden --timeout 5m deployment/poolwarden-gc
	kubectl rollout status --namespace poolwarden --timeout 5m deployment/poolwarden-webhook

test: venv ## run all tests; those on a real API server need Go or KUBEBUILDER_ASSETS (ARGS="-k name" goes to pytest)
	$(BIN)/python tests/controlplane/build.py --optional
	$(BIN)/pytest $(ARGS)

lint: venv ## check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	MYPYPATH=tests $(BIN)/mypy src tests
	$(BIN)/lint-imports

controlplane: ## build etcd, kube-apiserver and so on for the tests (minutes at first, then cached)
	$(PYTHON) tests/controlplane/build.py

cluster: venv ## run a control plane to play with, until Ctrl-C
	PYTHONPATH=tests exec $(BIN)/python -m controlplane.cluster

bench: venv ## measure speed and memory (ARGS=sweep, webhook, reviews, creations or whereabouts: only that, with options)
	@set -e; for part in $(or $(firstword $(ARGS)),sweep webhook whereabouts); do \
	  case $$part in \
	    sweep) $(BIN)/python tests/bench.py $(wordlist 2,99,$(ARGS));; \
	    whereabouts) $(BIN)/python tests/bench_whereabouts.py $(wordlist 2,99,$(ARGS));; \
	    *) $(BIN)/python tests/bench_webhook.py $$part $(wordlist 2,99,$(ARGS));; \
	  esac; \
	done

lock: ## write constraints.txt anew, with today's versions of everything
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder"; pip="$$folder/bin/python -m pip --disable-pip-version-check"; \
	$$pip install --quiet --upgrade pip setuptools; \
	$$pip install --quiet --editable . --group dev; \
	{ echo "# Exact versions of all that poolwarden runs, tests and builds with. Written by make lock."; \
	  $$pip freeze --all --exclude-editable; } > "$$folder/constraints.txt"; \
	cp "$$folder/constraints.txt" constraints.txt

clean: ## remove what make and the tools wrote here (not the cached control plane)
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
