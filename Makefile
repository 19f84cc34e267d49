# Everything a contributor or CI runs. `make help` lists it; CONTRIBUTING.md says when to use which.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO       ?= go
# What is built from pinned versions lies in the user's cache, by the content of its go.mod: each clone has it.
CACHE    ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/journalet
tool      = $(CACHE)/tools/$(1)-$(shell cat test/tools/$(1)/go.mod test/tools/$(1)/go.sum | sha256sum | cut -c1-16)
BUF      := $(call tool,buf)
LINT     := $(call tool,lint)
NATS     := $(call tool,nats)
# A lab is a private containerd, runc and CNI, one a name, so that a test run never meets a `make run`.
LAB_NAME ?= dev
FUZZTIME ?= 30s
# What `journalet version` prints: the tag, or the commit, and whether the tree differs from it.
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# More flags for what a target starts: make run ARGS='--journal-sync=interval:1s'
ARGS     ?=

LAB = LAB_NAME=$(LAB_NAME) deploy/lab/lab.sh
CLUSTER = LAB_NAME=$(LAB_NAME) $(GO) run ./test/cluster/lab
# All that `make run` writes: the journal, and the pods' logs and volumes.
RUN = $(CURDIR)/.lab/$(LAB_NAME)/journalet
# Packages with tests behind the integration tag.
INTEGRATION = $(shell grep -rl --include='*_test.go' '^//go:build integration' bus cmd runtime test/integration 2>/dev/null \
	| xargs -r -n1 dirname | sort -u | sed 's|^|./|')
# Packages with tests behind the cluster tag.
CLUSTERED = $(shell grep -rl --include='*_test.go' '^//go:build cluster' bus cmd runtime test 2>/dev/null \
	| xargs -r -n1 dirname | sort -u | sed 's|^|./|')
# go test is content with a pattern that matches nothing; a target that has nothing to run must say so.
listed = $(GO) test -list '$(1)' $(2) | grep -E '^(Test|Fuzz)' >/dev/null || { echo "no test matches $(1) in $(2)" >&2; exit 2; }
# What `make fuzz` runs, as function@package.
FUZZ = FuzzDecode@./runtime/source/manifest FuzzDecodeObjects@./runtime/source/manifest \
	FuzzBundle@./runtime/history/bundle FuzzBundleContent@./runtime/history/bundle \
	FuzzFact@./messages/clean FuzzText@./messages/plain \
	FuzzEvent@./runtime/history/describe FuzzRecord@./runtime/history/replay FuzzBlock@./bus \
	FuzzLog@./runtime/pod/logs FuzzTime@./runtime/pod/logs FuzzRead@./runtime/kubeletstate
# Tests run on the pinned containerd unless LAB_CONTAINERD names another: they need its event stream.
integration cluster cluster-test take-over reports conformance node-conformance e2e-node storage-specs chaos chaos-short chaos-cluster leftovers attack: export LAB_CONTAINERD ?= built
# The tests of test/chaos bring up their lab by themselves: they also kill it.
CHAOS = $(GO) test ./test/chaos -tags chaos -count=1 -timeout 30m
# The tests of test/vm build, boot and stop their machine by themselves.
VM = $(GO) test ./test/vm -tags vm -count=1
# The other modules of the repository that hold programs of ours.
MODULES = $(foreach dir,$(patsubst %/main.go,%,$(wildcard test/*/main.go deploy/*/main.go)),$(if $(wildcard $(dir)/go.mod),$(dir))) \
	test/tools/supply

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^##@ (build|trust)/ { print substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ build

.PHONY: build
build: ## bin/journalet
	$(GO) build -ldflags "-X github.com/journalet/journalet/runtime/agent.Version=$(VERSION)" -o bin/journalet ./cmd/journalet

.PHONY: dist
dist: ## dist/: deb, rpm, static binary and SBOM for amd64 and arm64, an OCI image, checksums (VERSION=v0.2.0; the first time five minutes)
	cd deploy/dist && $(GO) run . -root $(CURDIR) -out $(CURDIR)/dist -version "$(VERSION)"

.PHONY: generate
generate: tools-buf ## Go from proto/, into messages/journaletv1
	rm -f messages/journaletv1/*.pb.go
	PATH="$(BUF):$$PATH" $(BUF)/buf generate

.PHONY: docs
docs: ## what is written by programs: docs/EVENTS.md, and the clients in docs/OBSERVING.md
	$(GO) test -count=1 ./test/events -events.update
	$(GO) test -count=1 ./test/clients -clients.update

.PHONY: run
run: build lab-up ## the agent in the foreground on a local lab, with the pods of deploy/pods (root; LAB_NAME, ARGS)
	./bin/journalet run --container-runtime-endpoint "$$($(LAB) endpoint)" \
		--static-pod-path deploy/pods --root-dir $(RUN) --pod-log-dir $(RUN)/logs/pods --container-log-dir $(RUN)/logs/containers $(ARGS)

.PHONY: lab-up
lab-up: ## start a private containerd, or CRI-O, for tests and `make run` (root; LAB_NAME, LAB_RUNTIME=crio, LAB_CONTAINERD=auto|system|debian|built)
	$(LAB) up

.PHONY: lab-down
lab-down: ## stop it, with the pods it runs (LAB_NAME)
	$(LAB) down

.PHONY: cluster
cluster: build lab-up ## a Kubernetes control plane on this machine, with it as a node by TLS bootstrap, on a lab (root; LAB_NAME; the first build takes some 20 min)
	$(CLUSTER) up
	$(CLUSTER) join $(LAB_NAME) "$$($(LAB) endpoint)"

.PHONY: cluster-down
cluster-down: ## stop them, and the lab with its pods (LAB_NAME)
	$(CLUSTER) down
	$(LAB) down

.PHONY: conformance
conformance: build ## Kubernetes' conformance against this agent, on two nodes, labs "conformance-1" and -2; writes docs/CONFORMANCE.md (root; 45 min; goes on after an interrupt; ONLY=regexp, AGENT=kubelet: no page)
	$(call specs,conformance,CONFORMANCE)

.PHONY: node-conformance
node-conformance: build ## the specs of nodes that are not for conformance, likewise; writes docs/NODE-CONFORMANCE.md
	$(call specs,node,NODE-CONFORMANCE)

# specs runs the specs of a list on two nodes. What a kubelet takes is kept beside the specs.
define specs
$(GO) run ./test/cluster/conformance -list $(1) -lab conformance -out $(CURDIR)/.lab/$@ $(ARGS) \
	-agent $(or $(AGENT),journalet) -only '$(ONLY)' \
	$(if $(ONLY),,$(if $(AGENT),-times $(CURDIR)/test/cluster/conformance/kubelet.tsv,-page $(CURDIR)/docs/$(2).md))
endef

.PHONY: e2e-node
e2e-node: LAB_NAME = e2e-node
e2e-node: build ## Kubernetes' own tests of a node against this agent in the kubelet's place, on the lab "e2e-node"; writes docs/E2E-NODE.md (root; no /var/lib/kubelet on the machine; ONLY=regexp, AGENT=kubelet: no page)
	$(LAB) up
	eval "$$($(LAB) env)"; $(GO) run ./test/cluster/conformance -list e2e-node -out $(CURDIR)/.lab/$@ $(ARGS) \
		-agent $(or $(AGENT),journalet) -only '$(ONLY)' \
		$(if $(ONLY),,$(if $(AGENT),-times $(CURDIR)/test/cluster/conformance/kubelet.tsv,-page $(CURDIR)/docs/E2E-NODE.md))

# Each list gets a lab of its own: the images of sidecars hold the address of the API server of their run.
.PHONY: storage-specs
storage-specs: LAB_NAME = storage
storage-specs: build ## Kubernetes' own specs of CSI drivers against this agent, on the lab "storage"; writes docs/STORAGE-SPECS.md and docs/HOSTPATH-SPECS.md (root; 60 min; LIST=storage or hostpath: only its specs; ONLY=regexp, AGENT=kubelet: no page)
	failed=; for list in $(or $(LIST),storage hostpath); do \
		$(LAB) down; $(LAB) up; \
		eval "$$($(LAB) env)"; \
		$(GO) run ./test/cluster/conformance -list "$$list" -out $(CURDIR)/.lab/"$$list"-specs $(ARGS) \
			-agent $(or $(AGENT),journalet) -only '$(ONLY)' $(if $(ONLY)$(AGENT),,-page $(CURDIR)/docs/"$${list^^}"-SPECS.md) \
			|| failed=1; \
	done; [ -z "$$failed" ]

.PHONY: licences
licences: ## docs/third-party.txt: the modules that are built in, with their licences
	cd test/tools/supply && $(GO) run ./licences -root $(CURDIR)

.PHONY: clean
clean: ## remove what was built, but for the tools and the labs
	rm -rf bin dist

##@ trust

.PHONY: check
check: fmt vet lint proto generated arch third-party ## all that needs no running: format, vet, linters, proto contract, generated code, architecture, licences

.PHONY: test
test: ## what each change has to pass: check, unit, simulation, race, the kubelet's own code, integration and a dozen attacks on a real containerd (root; TIERS="unit race": only these)
	$(GO) run ./test/gate test $(TIERS)

.PHONY: nightly
nightly: ## everything there is, with fresh seeds and with times, two hours; continues where it was interrupted, writes docs/NIGHTLY.md (root; ALL=1: also what did not change; TIERS)
	$(GO) run ./test/gate nightly $(TIERS)

.PHONY: unit
unit: ## tests that need no root and no runtime: deciders, bus, host, simulation, architecture
	$(GO) test -timeout 30m ./...
	for module in $(MODULES); do (cd "$$module" && $(GO) test -timeout 30m ./...); done

.PHONY: integration
integration: LAB_NAME = test
integration: ## the integration tests, on the lab "test" (root)
	@[ -n "$(INTEGRATION)" ] || { echo "no test carries the integration tag: this checkout is not whole" >&2; exit 1; }
	$(LAB) up
	JOURNALET_TEST_CRI_ENDPOINT="$$($(LAB) endpoint)" $(GO) test -tags integration -count=1 -timeout 30m $(INTEGRATION)

.PHONY: cluster-test
cluster-test: LAB_NAME = cluster
cluster-test: ## the tests against a control plane of Kubernetes, on the lab "cluster" (root; the first build takes some 20 min)
	$(LAB) up
	JOURNALET_TEST_CRI_ENDPOINT="$$($(LAB) endpoint)" $(GO) test -tags cluster -count=1 -p 1 -timeout 30m $(CLUSTERED)

.PHONY: take-over
take-over: LAB_NAME = cluster
take-over: ## pods that a kubelet has started are taken over by the agent, and handed back, on the lab "cluster": no container restarts (root)
	$(LAB) up
	JOURNALET_TEST_CRI_ENDPOINT="$$($(LAB) endpoint)" $(GO) test -tags cluster -count=1 -timeout 30m -v \
		-run '^TestKubeletsNodeIsTakenOverAndHandedBack$$' ./test/cluster

.PHONY: reports
reports: LAB_NAME = reports
reports: ## what people reported of kubelets and others, tried on this agent, on the lab "reports" (root; AGENT=kubelet: on the kubelet; ARGS='-run TestName')
	$(LAB) up
	JOURNALET_TEST_CRI_ENDPOINT="$$($(LAB) endpoint)" $(GO) test -tags reports -count=1 -timeout 30m -v $(ARGS) ./test/reports \
		-agent=$(or $(AGENT),journalet)
	$(if $(filter kubelet,$(AGENT)),,JOURNALET_TEST_CRI_ENDPOINT="$$($(LAB) endpoint)" \
		$(GO) test -tags reports -count=1 -timeout 10m -v $(or $(ARGS),-run TestLab) ./runtime/cri/reap)

.PHONY: clients
clients: $(NATS)/nats ## the NATS clients of docs/OBSERVING.md beside an agent that is killed while they follow it (Go, Python, JavaScript, nats)
	test/clients/provide.sh $(CURDIR)/.tools/clients
	PATH="$(NATS):$$PATH" $(GO) test -tags clients -count=1 -timeout 30m ./test/clients

.PHONY: race
race: ## what runs concurrently, and a little of the simulation, under the race detector (FULL=1: everything)
	$(if $(FULL),$(GO) test -race -timeout 1h ./...,$(GO) run ./test/gate test race)

.PHONY: sim
sim: ## the agent in a world of faults on virtual time: the kept seeds and 40 constant ones (SEEDS=10000: so many fresh ones; SEED=123 repeats one, TEST= its test, KEEP= its ops; OUT=directory for journals)
	$(GO) test -count=1 -timeout 24h -v ./test/simulation $(if $(SEED),-run '^$(or $(TEST),TestNothingBreaksUnderFaults)$$' -sim.seed=$(SEED) -sim.keep=$(KEEP)) \
		$(if $(TENANT),-sim.tenant=$(TENANT)) \
		$(if $(SEEDS),-sim.seeds=$(SEEDS) -sim.first=fresh) -sim.out=$(abspath $(OUT))

# Tests of what decides, folds and reads journals. Signals for preemption confuse the emulator,
# and a program that a test compiles and starts would be one for arm64.
ARM64 = GOARCH=arm64 CGO_ENABLED=0 GODEBUG=asyncpreemptoff=1 $(GO) test -count=1 -timeout 1h -exec qemu-aarch64-static
.PHONY: emulated
emulated: ## deciders, journal and simulation as built for arm64, on qemu-user: journals must be those of this machine, byte for byte (twenty minutes)
	@command -v qemu-aarch64-static >/dev/null || apt-get install -y -q --no-install-recommends qemu-user-static
	rm -f .lab/hashes.json; mkdir -p .lab
	$(GO) test -count=1 -run '^TestSameSeedGivesSameJournal$$' ./test/simulation -sim.hashes=$(CURDIR)/.lab/hashes.json
	$(ARM64) -v -run '^TestSameSeedGivesSameJournal$$' ./test/simulation -sim.hashes=$(CURDIR)/.lab/hashes.json
	$(ARM64) -skip '^TestReaderOfThePageReadsBundles$$' ./messages/... ./actors/... ./runtime/fold/... ./runtime/history/...

.PHONY: bench-sim
bench-sim: ## how much faster than real time 50 pods are simulated on one core (SEEDS=40)
	GOMAXPROCS=1 $(GO) test -count=1 -timeout 1h -v -run '^TestNothingBreaksUnderFaults$$' ./test/simulation \
		-sim.pods=50 -sim.first=100 -sim.seeds=$(or $(SEEDS),40)

.PHONY: mutants
mutants: ## defects that are put into the agent on purpose: the simulation has to find each (MUTANTS=10: only so many of them)
	$(GO) test -tags mutants -count=1 -timeout 2h -v -run '^TestEveryMutantIsFound$$' ./test/simulation -mutants=$(or $(MUTANTS),0)

.PHONY: sim-runtime
sim-runtime: ## the simulated runtime, held to the same conformance suite as the real one
	@$(call listed,.,./runtime/sim/...)
	$(GO) test -count=1 ./runtime/sim/...

.PHONY: histories
histories: ## add journals to testdata until they have each event, record its root directory again, and write what is drawn of them: read the difference (five minutes)
	$(GO) test -count=1 -timeout 1h -v -run '^TestRecordedHistoriesFoldToTheirState$$' ./test/simulation -sim.record
	$(GO) test -count=1 -v -run '^TestAgentAdoptsRecordedRootUnchanged$$' ./test/upgrade -upgrade.record
	$(GO) test -count=1 -run '^TestStartsOfARecordedRun$$' ./runtime/history/start -start.update
	$(GO) test -count=1 -run '^TestPicturesOfARecordedRun$$' ./runtime/history/timeline -timeline.update
	$(GO) test -count=1 -run '^TestTraceOfAStart$$' ./runtime/history/trace -trace.update
	$(MAKE) docs

.PHONY: release
release: tools-buf ## record what a release promises (VERSION=v0.1.0): commands, output, events, subjects, metrics, fields, contract, and a root directory that later versions adopt
	@echo "$(VERSION)" | grep -Eqx 'v[0-9]+[.][0-9]+[.][0-9]+' || { echo "name the release: make release VERSION=v0.1.0" >&2; exit 2; }
	@[ ! -e "test/promises/released/$(VERSION)" ] || { echo "$(VERSION) is released, and is not recorded again" >&2; exit 2; }
	$(GO) test -count=1 -run '^TestAgentAdoptsRecordedRootUnchanged$$' ./test/upgrade -upgrade.record
	cp test/upgrade/testdata/root.tar.gz test/upgrade/testdata/$(VERSION).tar.gz
	$(GO) test -count=1 -run 'Kept$$' ./cmd/journalet ./runtime/api/query ./runtime/config ./test/promises -promises.record=$(VERSION)
	$(BUF)/buf build --exclude-source-info -o test/promises/released/$(VERSION)/proto.binpb
	git rev-parse HEAD >test/promises/released/$(VERSION)/commit

.PHONY: corpus
corpus: LAB_NAME = corpus
corpus: ## how many manifests of a directory a node accepts, as the kubelet decodes them, and why not the others (FOLDER=dir; RUN=50: so many have to run, on a lab, root)
	@[ -d "$(FOLDER)" ] || { echo "name a directory of manifests: make corpus FOLDER=dir" >&2; exit 2; }
	$(GO) test -count=1 -v -run '^TestCorpusIsJudged$$' ./test/corpus -corpus.dir=$(abspath $(FOLDER))
	cd test/oracle && $(GO) test -p 2 -count=1 -v -run '^TestCorpusIsDecodedAsByTheKubelet$$' . -oracle.corpus=$(abspath $(FOLDER))
ifeq ($(origin RUN),command line)
	$(LAB) up
	JOURNALET_TEST_CRI_ENDPOINT="$$($(LAB) endpoint)" $(GO) test -tags corpus -count=1 -v -timeout 30m \
		-run '^TestAcceptedManifestsRun$$' ./test/corpus -corpus.dir=$(abspath $(FOLDER)) -corpus.run=$(RUN)
endif

.PHONY: replay
replay: ## every scenario folded again from its journal, and the host's own folds
	@$(call listed,.,./test/scenario)
	$(GO) test -count=1 ./test/scenario ./runtime/fold ./runtime/host

.PHONY: fuzz
fuzz: ## fuzz the decoders of manifests, bundles and records, the replay of records, and journal files, each for FUZZTIME (30s)
	@for target in $(FUZZ); do \
		name="$${target%@*}" package="$${target#*@}"; \
		$(GO) test -list "^$$name$$" "$$package" | grep -x "$$name" >/dev/null || { echo "no $$name in $$package" >&2; exit 2; }; \
		$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzzminimizetime 10x -fuzztime $(FUZZTIME) "$$package"; \
	done

.PHONY: bench
bench: build ## ours and the bare CRI floor on the same work, side by side (root; N="50 150", RUNS=3, SCENARIOS=probes, KUBELET=path, ARGS); SCENARIOS=cluster or csi: as a node of a cluster beside its kubelet
	N="$(N)" RUNS="$(RUNS)" KUBELET="$(KUBELET)" ARGS="$(ARGS)" test/bench/run.sh

.PHONY: bench-guard
bench-guard: ## this commit beside the last release on the simulated runtime, in turn, five times; fails where a figure is more than 1.15 times as large (some five minutes; BASE=commit)
	BASE="$(BASE)" test/bench/guard.sh

.PHONY: bench-journal
bench-journal: ## what reads a journal of 1,000,000 events: replay, states; what observers and an event cost (written once into .lab; EVENTS, ARGS)
	$(GO) run ./test/journalbench -events $(or $(EVENTS),1000000) $(ARGS)
	$(GO) test ./bus -run '^$$' -bench 'LiveTail|FiftyEvents' -benchtime 1000x
	$(GO) test ./bus -run '^$$' -bench FilteredObservers -benchtime 15x

.PHONY: bench-sync
bench-sync: build ## what syncing each append costs a burst, on this disk and on one that takes 10 ms a sync (root; N, RUNS, ARGS)
	N="$(N)" RUNS="$(RUNS)" ARGS="$(ARGS)" test/bench/sync.sh

.PHONY: bench-trace
bench-trace: build ## where the time of a pod's start and of a burst goes, as tables (root; N, ARGS)
	N="$(N)" ARGS="$(ARGS)" test/bench/trace.sh

.PHONY: oracle
oracle: ## our decisions held to the kubelet's own code, on made-up and hand-kept pods (SEED=n repeats a run; CASES=1000, ONLY=decode)
	cd test/oracle && $(GO) vet -p 2 ./... && $(GO) test -p 2 ./pods && \
		$(GO) test -p 2 -count=1 -timeout 30m -v . -oracle.seed=$(or $(SEED),0) -oracle.cases=$(or $(CASES),1000) -oracle.only=$(ONLY)

.PHONY: oracle-short
oracle-short: # always the same cases, as part of make test: a rare difference is no failure of a change that it has nothing to do with
	$(MAKE) oracle SEED=1 CASES=600

.PHONY: vulns
vulns: ## known vulnerabilities in the code that any module of the repository calls; without the database it reports only that
	cd test/tools/supply && $(GO) run ./vulns -root $(CURDIR)

.PHONY: chaos
chaos: ## kills of the agent and of containerd, a hanging runtime, a full disk, reboots, power cuts, at full length, on the lab "chaos"; then five minutes of chaos-cluster (root; ARGS='-chaos.seed=1')
	LAB_NAME=chaos $(CHAOS) -v -timeout 60m -chaos.full -chaos.seed=0 $(ARGS)
	$(if $(findstring -run,$(ARGS)),,$(MAKE) chaos-cluster DURATION=5m)

.PHONY: chaos-cluster
chaos-cluster: LAB_NAME = chaos-cluster
chaos-cluster: ## kills of the agent, containerd and every part of a control plane while workloads change, on the lab "chaos-cluster" (root; DURATION=1h, ARGS='-chaos.seed=1'; after `make cluster`, which builds Kubernetes)
	LAB_NAME=$(LAB_NAME) $(GO) test ./test/chaos -tags chaos,cluster -count=1 -v -timeout 24h \
		-run '^TestNoPodIsLostOrDoubledWhileTheClusterIsKilled$$' -chaos.for=$(or $(DURATION),1h) -chaos.seed=0 $(ARGS)

.PHONY: chaos-short
chaos-short: ## the same in two or three minutes
	LAB_NAME=chaos $(CHAOS) $(ARGS)

.PHONY: leftovers
leftovers: ## what is left on runtime, host and disk after 10,000 restarts and 1,000 deleted pods, on the lab "leftovers" (root; RESTARTS, PODS, ARGS="-chaos.within=30m -chaos.kills=false")
	LAB_NAME=leftovers $(CHAOS) -v -timeout 120m -run '^TestNothingIsLeftOver$$' -chaos.restarts=$(or $(RESTARTS),10000) -chaos.deleted=$(or $(PODS),1000) $(ARGS)

.PHONY: attack
attack: ## what containers, manifests, servers and peers can do to harm the agent, on the lab "attack" (root; ARGS='-run TestNestedJSON')
	LAB_NAME=attack $(GO) test ./test/attack -tags attack -count=1 -timeout 30m -v $(ARGS)

.PHONY: timeline-test
timeline-test: ## the page of `journalet timeline` in a headless Chromium, which it installs where there is none (root; ARGS=-v: figures)
	test/timeline/chromium.sh
	cd test/timeline && $(GO) vet ./... && $(GO) test -count=1 -timeout 30m $(ARGS) .

.PHONY: screens
screens: ## docs/img: the pictures of the documents: of commands on a simulated node, and taken in Chromium
	$(GO) test -count=1 -run '^TestPicturesOfCommands$$' ./cmd/journalet -args -pictures=$(CURDIR)/docs/img
	test/timeline/chromium.sh
	cd test/timeline && $(GO) test -count=1 -run '^TestPicturesOfTheDocuments$$' . -args -timeline.screens=$(CURDIR)/docs/img

.PHONY: chaos-debian
chaos-debian: ## the short form on Debian's containerd 1.6, which has no event stream, on the lab "chaos-debian"
	LAB_NAME=chaos-debian LAB_CONTAINERD=debian $(CHAOS) $(ARGS)

.PHONY: vm
vm: ## the shipped unit under a real systemd with cgroup v2, in an emulated machine: disk, runtime and directory fail for 5 min each (root)
	$(VM) -v -timeout 60m -vm.full $(ARGS)
	$(MAKE) vm-join vm-packages

.PHONY: vm-join
vm-join: ## kubeadm joins that machine to a cluster, with the agent in the kubelet's place, a part of make vm (root, and the programs of make cluster)
	$(GO) test ./test/vm/join -tags vm -count=1 -v -timeout 60m $(ARGS)

.PHONY: vm-packages
vm-packages: ## the deb of make dist is installed, upgraded, removed and purged on that machine, a part of make vm (root)
	$(GO) test ./test/vm/packages -tags vm -count=1 -v -timeout 60m $(ARGS)

.PHONY: vm-short
vm-short: ## the same in five minutes; the user's cache keeps the image of the machine
	$(VM) -v -timeout 40m $(ARGS)

.PHONY: dist-test
dist-test: ## make dist twice, in two directories: every file is the same byte by byte
	cd deploy/dist && $(GO) test -tags dist -count=1 -timeout 1h -v -run '^TestReleaseIsTheSameFromTwoDirectories$$' .

##@ parts of check

.PHONY: fmt
fmt: # gofmt, without changing anything
	@bad="$$(gofmt -l actors bus cmd deploy messages runtime test)"; [ -z "$$bad" ] || { echo "run gofmt -w on:"; echo "$$bad"; exit 1; } >&2

.PHONY: vet
vet:
	$(GO) vet -tags integration,cluster,reports,chaos,attack,vm,clients ./...
	for module in $(MODULES); do (cd "$$module" && $(GO) vet ./...); done

.PHONY: lint
lint: $(LINT)/golangci-lint
	$(LINT)/golangci-lint run ./...

.PHONY: proto
proto: tools-buf # style of the contract, and that a change of it which breaks recorded journals raises their format
	$(BUF)/buf lint
	BUF=$(BUF)/buf test/tools/breaking.sh

.PHONY: generated
generated: tools-buf # messages/journaletv1 is what proto/ says
	@tmp="$$(mktemp -d)"; trap 'rm -rf "$$tmp"' EXIT; \
	PATH="$(BUF):$$PATH" $(BUF)/buf generate -o "$$tmp"; \
	diff -r --exclude=doc.go "$$tmp/messages/journaletv1" messages/journaletv1 >&2 \
		|| { echo "generated code is not what proto/ says: run make generate" >&2; exit 1; }

.PHONY: arch
arch:
	$(GO) test -count=1 ./test/arch

.PHONY: third-party
third-party: # docs/third-party.txt lists what is built
	cd test/tools/supply && $(GO) run ./licences -root $(CURDIR) -check

##@ tools: built from modules of their own, again only if their go.mod or go.sum changes

.PHONY: tools
tools: tools-buf $(LINT)/golangci-lint # what make check needs

.PHONY: tools-buf
tools-buf: $(BUF)/buf $(BUF)/protoc-gen-go

# Built beside its place and renamed: a build that is interrupted, or runs twice, leaves no half of a tool.
build_tool = part=$$(mktemp -d "$(dir $(1)).part.XXXXXX") && (cd test/tools/$(2) && $(GO) build -o "$$part/" $(3)) && \
	mkdir -p $(1) && mv -f "$$part"/* $(1)/ && rmdir "$$part"

$(CACHE)/tools:
	mkdir -p $@

$(BUF)/buf $(BUF)/protoc-gen-go &: | $(CACHE)/tools
	$(call build_tool,$(BUF),buf,github.com/bufbuild/buf/cmd/buf google.golang.org/protobuf/cmd/protoc-gen-go)

$(LINT)/golangci-lint: | $(CACHE)/tools
	$(call build_tool,$(LINT),lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

$(NATS)/nats: | $(CACHE)/tools
	$(call build_tool,$(NATS),nats,github.com/nats-io/natscli/nats)
