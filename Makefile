# What can be done here. `make` alone lists it.
.DEFAULT_GOAL := help
.PHONY: help build lint unit root guest uml demo test soak bench benchmarks clean packages

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## the example plugins, into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./examples/plugins/...

lint: ## gofmt, go vet, staticcheck, and the checks of imports and documentation
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	go vet ./...
	go build -C internal/tools -o "$(CURDIR)/bin/" honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...
	go test ./internal/...

unit: ## all tests with the race detector; without root, those that need it are skipped
	go test -race -timeout 5m ./...

root: packages ## all tests as root, in network namespaces of their own
	@test "$$(id -u)" = 0 || { echo "the tests make network namespaces: run this as root" >&2; exit 1; }
	go test -count=1 -timeout 10m ./...

# What guest and uml run: packages of one module, and the flags of the test binaries.
PKG = ./link ./ipam ./delegate ./skel/... ./examples/...
ARGS =

guest: KERNEL = qemu
guest: packages ## the tests of PKG in a guest with kernel 6.12: make guest PKG=./link ARGS='-test.run TestX -test.v'
uml: KERNEL = uml
uml: packages ## the same, quicker, with user-mode Linux 6.1
guest uml:
	@go test -count=1 -run '^TestBuild$$' ./internal/testbin
	@mkdir -p .cache/guest
	@.ci/compile .cache/guest/bin $(PKG) > .cache/guest/list
	@internal/guest/tests -k $(KERNEL) -o .cache/guest/$(KERNEL) .cache/guest/list $(ARGS)

demo: packages ## two containers attached by macvlan and by bridge, seen; needs root
	@bash examples/demo.sh

test: ## what the gate runs: everything; needs root
	@.ci/run

soak: ## what is too long for the gate: fuzzing, repeated runs, seeded faults; hours
	@.ci/soak

# What the bench takes: ARGS='-only bridge+ipMasq' is one row.
bench: packages ## both sides in turn, ours and the reference plugins, as whole processes; needs root; 4 min
	@bash internal/bench/run.sh $(ARGS)

# What the benchmarks take: ARGS='-benchtime 3s -count 5' is steadier.
benchmarks: packages ## those of packages: NAT and rules beside 5,000 others, leases, delegates beside libcni; needs root; 5 min
	go test -run '^$$' -bench . -benchmem $(ARGS) ./link ./link/nat ./ipam/hostlocal ./netconf
	go test -C internal/compare -run '^$$' -bench . -benchmem $(ARGS) ./...

clean: ## remove what was built
	rm -rf bin

packages:
	@.ci/install
