#!/bin/sh
#
# install.sh BUILD CC... - install into BUILD/root, and build the examples with the lock library
# from there as another program would: with pkg-config and the installed headers, with the shared
# library and with the archive, those of the manual pages, and a program in C++. Check that every
# symbol of the library has the prefix, and that the manual pages have each call.
set -eu
build=$1
shift
root=$PWD/$build/root

rm -rf "$root"
make --no-print-directory -s BUILD="$build" DESTDIR="$root" PREFIX=/usr install
"$root/usr/bin/seckill" version
"$root/usr/bin/seckill" top --url http://127.0.0.1:1 --token-file VERSION --count 1 | grep 'does not answer'

export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
mkdir "$root/pages"
for page in "$root"/usr/share/man/man*/rlock*; do
    awk -f lib/man/example.awk "$page" >"$root/pages/${page##*/}.c"
done
for source in lib/examples/*.c "$root"/pages/*.c; do
    # shellcheck disable=SC2046 # one word per option
    "$@" -Wall -Wextra -Werror "$source" -o "$root/example" $(pkg-config --cflags --libs rlock)
    echo "built $source"
    # shellcheck disable=SC2046
    "$@" -Wall -Wextra -Werror "$source" -o "$root/example" $(pkg-config --cflags rlock) \
        "$root/usr/lib/librlock.a" $(pkg-config --static --libs rlock | sed 's/-lrlock//')
done

# shellcheck disable=SC2046
clang -x c++ -std=c++17 -Wall -Wextra -Werror - -o "$root/example" \
    $(pkg-config --cflags --libs rlock) <<'EOF'
#include <lock/rlock_group.h>
#include <lock/rlock_sync.h>
int main()
{
    rlock_sync *sync = nullptr;
    rlock_err error = {};

    if (rlock_sync_start(&sync, &error) != RLOCK_OK)
        return 1;
    rlock_sync_close(sync);
    rlock_sync_free(sync);
    return rlock_status_name(RLOCK_OK)[0] == 'o' ? 0 : 1;
}
EOF
objdump -p "$root/example" | grep -q 'NEEDED *librlock.so.1'
LD_LIBRARY_PATH="$root/usr/lib" "$root/example"
echo "built and ran a program in C++"

names=$(nm -g --defined-only "$root/usr/lib/librlock.a"; nm -D --defined-only "$root/usr/lib/librlock.so.1")
alien=$(echo "$names" | awk 'NF == 3 && $3 !~ /^(rlock_|RLOCK_)/')
if [ -n "$alien" ]; then
    echo "names without the prefix rlock_:" "$alien" >&2
    exit 1
fi

lib/man/check.py "$root/usr"
