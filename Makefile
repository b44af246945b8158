# Everything a developer does with this repository. `make` lists it.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO ?= go
# One setting for building, testing and linting lets them share the build cache: the binaries are static, and nothing
# needs C but the race detector.
export CGO_ENABLED := 0
# VERSION is what the binaries say they are: the tag they were built from, and how far from it.
VERSION ?= $(or $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null),v0.1.0-dev)
# release_flags are those of the programs that are shipped. Without the tag they hold the web pages on which gRPC traces its calls, and
# with their templates every method of every type: 13 MB more in the daemon.
release_flags = -tags grpcnotrace -ldflags '-s -w $(version_flag)'
version_flag := -X github.com/nodefirmware/node-firmware-operator/internal/version.version=$(VERSION)
# tool runs a tool at the version its own module file pins.
tool = $(GO) tool -modfile=hack/tools/$(1)/go.mod $(1)
# generated is what `make generate` and `make ui` write and `make verify` compares.
generated := api/v1alpha1 api/v1beta1 deploy/kustomize/crd internal/testing/crd docs/reference pkg/driver/plugin/v1 internal/view/web/site

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "; printf "Usage: make <target> [ARGS=...]\n"} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use

.PHONY: demo
demo: build ## Roll firmware and settings over simulated machines through a real Kubernetes API (flags: ARGS='--nodes 12').
	bin/firmware-lab demo $(ARGS)

.PHONY: chaos
chaos: ## Break the update transaction at its every boundary and judge the hardware (flags: ARGS='--seeds 1000 --seed 1 --report FILE').
	@mkdir -p bin
	$(GO) build -ldflags '-s -w' -o bin/ ./cmd/firmware-lab
	bin/firmware-lab chaos $(ARGS)

.PHONY: scale
scale: ## Measure the operator with 5,000 nodes and 40,000 devices on a real API server (flags: ARGS='--nodes N --report FILE').
	@mkdir -p bin
	$(GO) build $(release_flags) -o bin/ ./cmd/firmware-lab ./cmd/firmware-operator
	bin/firmware-lab scale $(ARGS)

.PHONY: lab
lab: build ## Update emulated devices of a virtual machine with a real kernel, and reboot it (flags: ARGS='--dir DIR').
	bin/firmware-lab vm $(ARGS)

# E2E_IMAGES are archives of the operator's and the daemon's image.
E2E_IMAGES ?= $(wildcard bin/images/*.tar)
comma := ,
empty :=
.PHONY: e2e
e2e: build ## Run the images of `make images` as pods of a real node, as root, 20 minutes and more (flags: ARGS='--only install,update').
	bin/firmware-lab node --images '$(subst $(empty) $(empty),$(comma),$(strip $(E2E_IMAGES)))' $(ARGS)

.PHONY: maintenance-contract
maintenance-contract: ## Run the contract of a maintenance and an update against the real maintenance-operator, about 8 minutes (flags: ARGS='GIT-REPOSITORY').
	binary=$$($(GO) run ./hack/maintenanceoperator $(ARGS)) && assets=$$($(GO) run ./hack/controlplane) && \
		MAINTENANCE_OPERATOR=$$binary KUBEBUILDER_ASSETS=$$assets $(GO) test -count=1 -timeout 20m -run MaintenanceOperator ./internal/testing/maintenancetest ./internal/testing/lab

.PHONY: tools-contract
tools-contract: ## Run the drivers' command lines against the vendors' tools of Debian releases, as root, with apt (flags: SUITES='bookworm trixie sid').
	hack/tools-contract.sh $(or $(SUITES),bookworm trixie sid)

.PHONY: build
build: ## Build the binaries into bin/.
	@mkdir -p bin
	$(GO) build $(release_flags) -o bin/ ./cmd/...

# REGISTRY is the first part of the images' names; the one in deploy/kustomize, unless yours is named.
REGISTRY ?= localhost/nodefirmware
.PHONY: krew
krew: ## Pack kubectl firmware for each platform into bin/release, with man pages and the manifest for krew (VERSION=v1.2.3).
	$(GO) run ./hack/release pack -version $(VERSION) $(ARGS)
	$(GO) tool -modfile=hack/tools/krew/go.mod validate-krew-manifest -manifest bin/release/firmware.yaml -skip-install

.PHONY: images
images: ## Build both images, as archives in bin/images (flags: REGISTRY=registry.example.com/firmware VERSION=v0.1.0 ARGS='--slim --twice --push').
	$(GO) run ./hack/images --registry '$(REGISTRY)' --version '$(VERSION)' $(ARGS)

# CHARTS is where the chart is packaged into.
CHARTS ?= bin/chart
.PHONY: chart
chart: ## Package the Helm chart into bin/chart, and check it (flags: VERSION=v0.1.0).
	@mkdir -p $(CHARTS)
	$(call tool,helm) package deploy/chart/node-firmware-operator --destination $(CHARTS) --version $(VERSION:v%=%) --app-version $(VERSION) \
		2> >(grep -v 'symbolic link' >&2)
	$(call tool,helm) lint --strict --quiet $(CHARTS)/node-firmware-operator-$(VERSION:v%=%).tgz
	$(call tool,helm) template node-firmware-operator $(CHARTS)/node-firmware-operator-$(VERSION:v%=%).tgz >/dev/null

.PHONY: release
release: ## Make everything that a release consists of in bin/release, with checksums and signature, from its tag (VERSION=v1.2.3 REGISTRY=registry.example.com/firmware KEY=cosign.key; DRY_RUN=1 for a commit without a tag, without images and key).
	$(GO) run ./hack/release check $(sealing)
	rm -rf bin/release
	$(if $(DRY_RUN),,$(GO) run ./hack/images --bases registry --registry '$(REGISTRY)' --version '$(VERSION)' --out bin/release)
	$(MAKE) krew chart VERSION='$(VERSION)' CHARTS=bin/release
	$(GO) run ./hack/release seal $(sealing)
sealing = -version '$(VERSION)' -registry '$(REGISTRY)' $(if $(DRY_RUN),-dry-run) $(if $(KEY),-key '$(KEY)')

.PHONY: images-check
images-check: ## Run every command line of the drivers in the daemon's image, with the shipped mounts, as root (flags: DAEMON_IMAGE=FILE).
	DAEMON_IMAGE=$(abspath $(or $(DAEMON_IMAGE),bin/images/daemon.tar)) $(GO) test -count=1 -v -run 'InTheImage|MountThatIsMissing' ./hack/images

##@ Develop

.PHONY: generate
generate: generate-code golden ## Write everything that is generated: code, CRDs, API reference, golden files.

.PHONY: generate-code
generate-code: ## Write deep copies, CRDs, the plugin protocol and the API reference.
	$(GO) run ./hack/apiversion
	$(call tool,controller-gen) object crd paths=./api/... output:crd:dir=deploy/kustomize/crd
	$(call tool,controller-gen) crd paths=github.com/Mellanox/maintenance-operator/api/v1alpha1 \
		output:crd:dir=internal/testing/crd
	cd hack/tools/protoc && $(GO) run . ../../.. pkg/driver/plugin/v1/driver.proto
	@mkdir -p docs/reference
	$(call tool,crd-ref-docs) --log-level=ERROR --config=hack/crd-ref-docs.yaml --source-path=api/v1alpha1 \
		--renderer=markdown --output-path=docs/reference/api.md

SITE ?= bin/site
.PHONY: site
site: ## Build the documentation as a site in bin/site/VERSION, beside other versions there (flags: VERSION=v0.1.0 SITE=DIR; needs mkdocs and npm).
	hack/site/build.sh '$(VERSION)' '$(SITE)' '$(if $(findstring -,$(VERSION)),main,$(VERSION))'

# The page of kubectl firmware ui: its types are checked, and it becomes one script and one style sheet, which the program embeds.
web := internal/view/web
.PHONY: ui
ui: ## Build the page of kubectl firmware ui (needs Node.js and npm).
	cd $(web) && npm ci --silent --no-audit --no-fund && npx tsc && \
		npx esbuild src/main.tsx --bundle --minify --format=esm --target=es2023 \
			--banner:js='/* Holds preact, MIT License, see preact.LICENSE */' --log-level=warning --outfile=site/view.js && \
		cp node_modules/preact/LICENSE site/preact.LICENSE

.PHONY: ui-test
ui-test: ui ## Click through the page in a browser, measure it with 5,000 nodes, and make the pictures of the documentation (UI_BROWSER=/usr/bin/chromium).
	UI_BROWSER=$(or $(UI_BROWSER),/usr/bin/chromium) $(GO) test -count=1 -v -timeout 20m -run TestTheViewInABrowser ./internal/view

.PHONY: pci-ids
pci-ids: ## Trim a database of PCI ids into the program (PCI_IDS=/usr/share/misc/pci.ids).
	$(GO) run ./hack/pciids <$(or $(PCI_IDS),/usr/share/misc/pci.ids) >pkg/host/pci.ids.new
	mv pkg/host/pci.ids.new pkg/host/pci.ids

.PHONY: golden
golden: ## Write the golden files of all tests anew; review the difference.
	assets=$$($(GO) run ./hack/controlplane); \
	packages=$$({ grep -rlE --include='*_test.go' 'golden\.Equal\(' . || true; } | xargs -r -n1 dirname | sort -u); \
	[ -z "$$packages" ] || KUBEBUILDER_ASSETS=$$assets UPDATE_GOLDEN=1 $(GO) test -count=1 $$packages

.PHONY: verify
verify: ## Check generated files, modules and formatting, and that no known vulnerability can be reached.
	GO='$(GO)' hack/verify.sh $(generated)

.PHONY: lint
lint: ## Run the linters.
	$(call tool,golangci-lint) run $(ARGS)

.PHONY: alerts-test
alerts-test: ## Play a beginning and an end of each alert, and have Prometheus scrape the operator (gets it with apt, where there is none).
	prometheus=$$(hack/prometheus.sh) && assets=$$($(GO) run ./hack/controlplane) && \
		PROMETHEUS=$$prometheus KUBEBUILDER_ASSETS=$$assets $(GO) test -count=1 -v -run 'TestAlerts|TestPrometheus' ./deploy

.PHONY: controlplane
controlplane: ## Get etcd and kube-apiserver (once several minutes) and print where they are.
	@$(GO) run ./hack/controlplane

# TESTFLAGS go to every go test; PACKAGES choose what is tested. The lab waits for machines to boot for minutes, so it begins first, and
# others run beside it.
TESTFLAGS ?= -timeout 60m -p 4
PACKAGES ?= ./internal/testing/lab ./...
.PHONY: test
test: ## Run all tests (flags: TESTFLAGS='-run X -v' PACKAGES=./pkg/...).
	assets=$$($(GO) run ./hack/controlplane); \
	KUBEBUILDER_ASSETS=$$assets $(GO) test $(TESTFLAGS) $(PACKAGES)

.PHONY: test-oldest
test-oldest: ## Run the tests that need an API server on the oldest supported Kubernetes (builds once for ten minutes; flags: TESTFLAGS).
	packages=$$({ grep -rlE --include='*_test.go' '(apitest\.(New|Main)|controlplane\.Start)\(' . || true; } | xargs -r -n1 dirname | sort -u); \
	CONTROLPLANE_RELEASE=oldest $(MAKE) test PACKAGES="$${packages//$$'\n'/ }"

.PHONY: count
count: ## Count the fields and reasons of the API, and the lines of code of product, test world and tests.
	@$(GO) run ./hack/count

.PHONY: mutate
mutate: ## Check that the tests notice deliberate defects of the decisions (flags: ARGS='-only pkg/plan').
	assets=$$($(GO) run ./hack/controlplane); \
	KUBEBUILDER_ASSETS=$$assets $(GO) run ./hack/mutate $(ARGS)

.PHONY: test-race
test-race: ## Run the tests of concurrent code under the race detector (needs a C compiler).
	assets=$$($(GO) run ./hack/controlplane); \
	KUBEBUILDER_ASSETS=$$assets CGO_ENABLED=1 $(GO) test -race $(TESTFLAGS) ./pkg/... ./internal/...

BENCHTIME ?= 200ms
.PHONY: bench
bench: ## Run the benchmarks (flags: BENCHTIME=2s).
	packages=$$({ grep -rlE --include='*_test.go' '^func Benchmark' . || true; } | xargs -r -n1 dirname | sort -u); \
	[ -z "$$packages" ] || $(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$packages

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## Fuzz every parser for a short while (flags: FUZZTIME=1m).
	grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | while IFS=: read -r file func; do \
		$(GO) test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$(dirname "$$file")"; \
	done

.PHONY: clean
clean: ## Remove what was built in the checkout.
	rm -rf bin
