# library.mk - builds, tests and installs the lock library. The Makefile of the repository and that
# of the source archive (lib/dist) include it, and define the compiler, its flags and $(BUILD).

PKGS_LIB = $(call once,PKGS_LIB,hiredis libuv libcrypto $(shell pkg-config --exists hiredis_ssl && echo hiredis_ssl libssl))

LIB_SRC  := $(sort $(wildcard lib/base/*.c lib/redis/*.c lib/lock/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
# Each test_*.c and it_*.c is a program. The other files in the folder are linked to all programs.
LIB_TEST_SRC := $(sort $(wildcard lib/test/*.c))
programs      = $(patsubst %.c,$(BUILD)/%,$(foreach f,$(2),$(if $(filter $(1),$(notdir $(f))),$(f))))
LIB_UNIT     := $(call programs,test_%.c,$(LIB_TEST_SRC))
LIB_IT       := $(call programs,it_%.c,$(LIB_TEST_SRC))
LIB_TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out lib/test/test_% lib/test/it_% lib/test/fuzz_%,$(LIB_TEST_SRC)))
LESSONS_SRC  := $(sort $(wildcard lib/test/lessons/*.c))
EXAMPLE_SRC  := $(sort $(wildcard lib/examples/*.c))
EXAMPLES     := $(EXAMPLE_SRC:%.c=$(BUILD)/%)
PAGES        := $(sort $(wildcard lib/man/*.[1-9]))
PAGE_EXAMPLES := $(PAGES:lib/man/%=$(BUILD)/lib/examples/%)

# -- building --

$(BUILD)/librlock.a: $(LIB_OBJ)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcs $@ $^

# The installed libraries: an archive whose only global symbols are rlock_*, and a shared library
# that exports the symbols of the headers.
LIB_VERSION := $(file <lib/VERSION)
SONAME      := librlock.so.$(firstword $(subst ., ,$(LIB_VERSION)))
$(BUILD)/install/librlock.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)ld -r -o $(@D)/rlock.o $^ && objcopy -w --keep-global-symbol='rlock_*' $(@D)/rlock.o
	$(Q)rm -f $@ && ar rcs $@ $(@D)/rlock.o
$(BUILD)/install/$(SONAME): $(LIB_SRC:%.c=$(BUILD)/pic/%.o) lib/librlock.map
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=lib/librlock.map -Wl,-z,defs \
	    -Wl,--as-needed $(SANITIZE) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS)

# The assembler includes the Lua files by name.
$(BUILD)/lib/lock/scripts.o $(BUILD)/pic/lib/lock/scripts.o: $(wildcard lib/lock/lua/*.lua)
$(BUILD)/lib/test/it_scripts.o: lib/test/it_scripts.lua
$(BUILD)/lib/test/it_acl.o: lib/man/rlock.7

# lib/test/torture.c counts the blocks that the objects allocate, and makes malloc() fail.
WRAP_MALLOC   = $(patsubst %,-Wl$(,)--wrap=%,malloc calloc realloc free strdup)
LINK_LIB_TEST = $(LINK_TEST) $(WRAP_MALLOC) -o $@ $^ $(LIBS_TEST)
$(LIB_UNIT) $(LIB_IT): %: %.o $(LIB_TEST_OBJ) $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(LINK_LIB_TEST)
$(BUILD)/lessons: $(LESSONS_SRC:%.c=$(BUILD)/%.o) $(LIB_TEST_OBJ) $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(LINK_LIB_TEST)

$(EXAMPLES) $(PAGE_EXAMPLES): %: %.o $(BUILD)/librlock.a
	$(call say,LD)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $^ $(LIBS)

# The programs of the manual pages.
$(PAGE_EXAMPLES:%=%.o): $(BUILD)/lib/examples/%.o: lib/man/% lib/man/example.awk
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)awk -f lib/man/example.awk $< | $(CC) $(ALL_CFLAGS) -c -o $@ -x c -

# -- installing --

# The headers are installed with their folders in include/rlock, where rlock.pc points.
LIB_HEADERS = $(patsubst %,lib/%.h,lock/rlock lock/rlock_group lock/rlock_sync \
              base/link base/status)
LIBDIR = $(PREFIX)/lib
ROOT   = $(DESTDIR)$(PREFIX)
.PHONY: install-library
install-library: $(BUILD)/install/librlock.a $(BUILD)/install/$(SONAME) ## install the library: PREFIX=/usr/local LIBDIR= DESTDIR=
	install -D -m 644 -t $(DESTDIR)$(LIBDIR) $(BUILD)/install/librlock.a
	install -m 644 $(BUILD)/install/$(SONAME) $(DESTDIR)$(LIBDIR)/librlock.so.$(LIB_VERSION)
	ln -sf librlock.so.$(LIB_VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/librlock.so
	for header in $(LIB_HEADERS:lib/%=%); do \
	    install -D -m 644 lib/$$header $(ROOT)/include/rlock/$$header || exit; done
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@LIBDIR@,$(LIBDIR:$(PREFIX)/%=$${prefix}/%),' -e 's,@VERSION@,$(LIB_VERSION),' \
	    -e 's,@LIBS@,$(patsubst lib%,-l%,$(filter-out libuv,$(patsubst hiredis%,libhiredis%,$(PKGS_LIB)))),' \
	    lib/rlock.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/rlock.pc
	for page in $(PAGES); do \
	    install -D -m 644 -t $(ROOT)/share/man/man$${page##*.} $$page || exit; done

# -- testing --

.PHONY: lessons
lessons: $(BUILD)/lessons ## show how the simple locks in Redis break, and the lock library beside each
	@exec $<

$(BUILD)/lib/test/it_examples.check: $(EXAMPLES) $(PAGE_EXAMPLES)
