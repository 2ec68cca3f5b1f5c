#!/bin/sh
#
# package.sh BUILD VERSION - makes a Debian package of the program in BUILD for the release of
# this machine, and prints its path. It depends on the libraries that the program is linked with.
set -eu
umask 022
build=$1
version=$2
root=$PWD/$build/package
arch=$(dpkg --print-architecture)
package=$build/seckill_${version}_$arch.deb

rm -rf "$root"
make --no-print-directory -s say= BUILD="$build" DESTDIR="$root" PREFIX=/usr install-program
strip --strip-unneeded "$root/usr/bin/seckill"
install -D -m 600 app/install/seckill.default "$root/etc/default/seckill"
install -D -m 644 CHANGELOG.md "$root/usr/share/doc/seckill/changelog"
install -D -m 644 LICENSE "$root/usr/share/doc/seckill/copyright"
gzip -9n "$root/usr/share/man/man1/seckill.1" "$root/usr/share/doc/seckill/changelog"

# dpkg-shlibdeps needs the directory of a source package.
depends=$(
    mkdir -p "$build/shlibdeps/debian"
    : >"$build/shlibdeps/debian/control"
    cd "$build/shlibdeps"
    dpkg-shlibdeps -O "$root/usr/bin/seckill" 2>/dev/null | sed -n 's/^shlibs:Depends=//p'
)
install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: seckill
Version: $version
Architecture: $arch
Maintainer: the seckill authors <seckill@localhost>
Installed-Size: $(du -ks --exclude DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: python3, ca-certificates, postgresql-client
Suggests: postgresql (>= 15), redis-server
Section: web
Priority: optional
Description: flash-sale order service
 Sells a limited stock of vouchers to many shoppers at once over HTTP. It never
 oversells, never exceeds a shopper's limit, and never loses an acknowledged
 order. Orders are in Postgres; locks in Redis hold back duplicate requests.
END
echo /etc/default/seckill >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "app/install/$script.sh" "$root/DEBIAN/$script"
done
dpkg-deb --build --root-owner-group -Zxz "$root" "$package" >/dev/null
echo "$package"
