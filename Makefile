# seckill: a flash-sale order service. `make help` lists what can be asked.
#
#   BUILD=dir     where objects and programs go (default build, or build/$(SAN))
#   SAN=address   build with ASan and UBSan;  SAN=thread: with TSan
#   CC=clang      another compiler

SAN    ?=
BUILD  ?= build$(if $(SAN),/$(SAN))
CC      = gcc
VERSION = 0.1.0

PKGS_LIB  = hiredis libuv $(shell pkg-config --exists hiredis_ssl && echo hiredis_ssl)
PKGS_APP  = libmicrohttpd libpq jansson libjwt libcrypto $(PKGS_LIB)
PKGS_TEST = cmocka $(PKGS_APP)

WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
           -Wformat=2 -Wvla -Werror
SANITIZE = $(if $(filter address,$(SAN)),-fsanitize=address$(,)undefined -fno-sanitize-recover=all) \
           $(if $(filter thread,$(SAN)),-fsanitize=thread)
,       := ,
CFLAGS   = -O2 -g
HARDEN   = $(if $(SAN),-fno-omit-frame-pointer,-D_FORTIFY_SOURCE=2) -fstack-protector-strong
ALL_CFLAGS = -std=gnu11 $(WARNINGS) $(HARDEN) $(SANITIZE) -pthread -MMD -MP -Ilib -I. \
             -DSECKILL_VERSION='"$(VERSION)"' \
             $(if $(filter hiredis_ssl,$(PKGS_LIB)),-DREDIS_WITH_TLS) \
             $(shell pkg-config --cflags $(PKGS_TEST)) $(CFLAGS)
LIBS     = -pthread $(shell pkg-config --libs $(PKGS_APP))
LIBS_TEST = -pthread $(shell pkg-config --libs $(PKGS_TEST))

LIB_SRC  := $(sort $(wildcard lib/base/*.c lib/redis/*.c lib/lock/*.c))
APP_SRC  := $(sort $(wildcard app/*.c))
EMBED    := $(sort $(wildcard sql/*.sql app/openapi.yaml))
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
APP_OBJ  := $(APP_SRC:%.c=$(BUILD)/%.o) $(BUILD)/embedded.o
# A test_*.c or it_*.c is a program of its own; other files beside them serve them all.
LIB_TESTS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard lib/test/test_*.c lib/test/it_*.c)))
APP_UNIT  := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard app/test/test_*.c)))
APP_IT    := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard app/test/it_*.c)))
LIB_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out lib/test/test_% lib/test/it_%,$(wildcard lib/test/*.c)))
APP_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out app/test/test_% app/test/it_% app/test/fuzz_%,$(wildcard app/test/*.c)))

.PHONY: all
all: $(BUILD)/seckill $(BUILD)/librlock.a

$(BUILD)/seckill: $(APP_OBJ) $(BUILD)/librlock.a
	$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/librlock.a: $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/embedded.c: $(EMBED) app/embed.sh
	@mkdir -p $(@D)
	app/embed.sh $(EMBED) >$@.tmp && mv $@.tmp $@

$(BUILD)/embedded.o: $(BUILD)/embedded.c
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(LIB_TESTS): %: %.o $(LIB_TEST_OBJ) $(BUILD)/librlock.a
	$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS_TEST)

$(APP_UNIT) $(APP_IT): %: %.o $(APP_TEST_OBJ) $(filter-out $(BUILD)/app/main.o,$(APP_OBJ)) $(BUILD)/librlock.a
	$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS_TEST)

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
