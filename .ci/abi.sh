#!/bin/sh
#
# abi.sh BUILD [--write] - compare the interface of the shared library with lib/dist/librlock.abi:
# its symbols, and the types of its headers. --write: replace that file.
set -eu
kept=lib/dist/librlock.abi
root=$PWD/$1/abi
unset MAKEFLAGS MAKELEVEL # this make must not use the jobs of the outer make

rm -rf "$root"
make --no-print-directory -s say= BUILD="$1" DESTDIR="$root" PREFIX= install-library >/dev/null
# abidiff with the library in place of a second file overlooks changed types.
abidw --headers-dir "$root/include" --drop-private-types --exported-interfaces-only --no-corpus-path \
    --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names "$root/lib/librlock.so" >"$root/librlock.abi"
if [ "${2-}" = --write ]; then
    cp "$root/librlock.abi" "$kept"
    exit
fi
abidiff --suppressions lib/dist/librlock.abignore "$kept" "$root/librlock.abi" && exit
cat >&2 <<END
The interface of the library is another one than in $kept. If a program that was linked with the
last release still works, raise the second number of lib/VERSION; otherwise the first. Then run
\`make abi\`, and list new symbols in lib/dist/debian/librlock1.symbols.
END
exit 1
