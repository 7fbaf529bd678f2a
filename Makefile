# Two commands do everything on a machine with Node and make: `make demo` and `make test`.
.PHONY: help install build serve demo demo-fleet test runtimes lint mutate soak bench figures dist audit clean

help: ## Print the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

# npm writes this file last, so it is there only after a complete installation.
node_modules/.package-lock.json: package-lock.json
	npm ci
	@# Without two of tap's plugins, which every test would load and none uses (package.json): a third of all its time.
	npx tap build
	@touch $@

install: node_modules/.package-lock.json ## Install what package-lock.json names

build: install ## Compile lib, www and test into dist
	npx tsc -b
	cp -R www/index.html www/styles www/icons dist/www/
	@# Node looks for the type of each module in all directories above it, a tenth of a start. Here it finds it.
	cp lib/package.json dist/lib/
	cp lib/package.json dist/test/
	@# What the server hands out: its description, from the map of routes (lib/api/map), and the archives of install.sh.
	node dist/test/release/describe.js

serve: build ## Start a server on your own data directory
	node bin/svc.js serve

demo: build ## Serve from a throw-away directory; push, undo, repair, verify, restore, sign, carry a signed bundle over
	node dist/test/demo/demo.js

demo-fleet: build ## Five agents; a rollout halts, is reverted and resumed; the hub is restored; then two hubs on etcd, the leader is killed
	node dist/test/demo/demo-fleet.js

# The list comes from the sources, so that a file that an earlier build left in dist never runs. ROOM=fleet runs test/fleet,
# TEST=test/operate/logs/tail/tail.test.ts runs one file, SLOWEST=30 prints the 30 files that take the most processor time.
# JOBS is the number of files at once; many of them wait more than they compute. dist/test.tap contains the whole output.
TEST ?= $(shell find test$(ROOM:%=/%) -name '*.test.ts' | sort)
JOBS ?= 6
SLOWEST ?= 0
test: build ## Run every test
	@node dist/test/support/suite.js $(JOBS) $(TEST:test/%.ts=dist/test/%.js) >dist/test.tap; status=$$?; rm -rf .tap/fixtures; \
	  sed -n 's/^ *# processor time //p' dist/test.tap | sort -rn | awk 'NR <= $(SLOWEST)'; \
	  if [ $$status -ne 0 ]; then npx tap run --reporter=terse dist/test.tap; fi; grep -a '^# {' dist/test.tap; exit $$status

lint: install ## Check format and code with Biome; `npx biome check --write` mends what it can
	@npx biome check --error-on-warnings .

runtimes: build ## Walk through every runtime that svc runs on, each fetched from the npm registry
	@node dist/test/runtimes/runtimes.js

# MUTATIONS conditions of lib are changed, one at a time; what no test of the room notices is printed. The same SEED chooses the same.
MUTATIONS ?= 60
SEED ?= $(shell date +%s)
mutate: build ## Change conditions of lib at random, and see whether a test fails
	@node dist/test/support/mutate.js $(MUTATIONS) $(SEED) $(ROOM)

# Programs that run for as long as they are told to, one after the other. SOAK=mixed runs one.
SOAK_MINUTES ?= 30
SOAK ?= $(shell find test/soak -name '*.ts' ! -name '*.test.ts' | sort | sed 's:.*/\(.*\)\.ts:\1:')
soak: build ## Run every program of test/soak, for SOAK_MINUTES together (30)
	@node dist/test/support/soak.js $(SOAK_MINUTES) $(SOAK)

# BENCH=store runs one.
BENCH ?= $(shell find test/bench -name '*.ts' | sort | sed 's:.*/\(.*\)\.ts:\1:')
bench: build ## Measure against known tools, side by side; ends with one table of ratios and goals
	@node dist/test/support/bench-all.js $(BENCH)

figures: build ## Print the size of the tree, and how fast a server is ready
	@node dist/test/support/figures.js

dist: build ## Write the archives, the Debian package, the bill of materials and their checksums into dist
	node dist/test/release/bundle.js

audit: build ## Print what svc depends on, and what each package may touch
	@node dist/test/release/audit.js

clean: ## Remove what was built
	rm -rf dist .tap
