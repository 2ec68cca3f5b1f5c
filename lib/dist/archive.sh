#!/bin/sh
#
# archive.sh BUILD - makes the source archive of the lock library in BUILD, and prints its path.
# The archive depends on nothing but the files and SOURCE_DATE_EPOCH, which is by default the time of
# the last commit. Files that git does not know are left out, and so are the programs that compare
# the library with others.
set -eu
export LC_ALL=C TZ=UTC
version=$(cat lib/VERSION)
name=librlock-$version
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
place=$(realpath -m "$1")/dist
tree=$place/$name

rm -rf "$place"
mkdir -p "$tree"
git ls-files lib | grep -v -e '^lib/dist/' -e '^lib/test/bench/' -e '^lib/test/interop/' |
    xargs cp --parents -t "$tree"
(cd lib/dist && git ls-files Makefile README.md debian | xargs cp --parents -t "$tree")
cp LICENSE "$tree"
cat >"$tree/debian/changelog" <<END
librlock ($version) unstable; urgency=medium

  * Release $version.

 -- the seckill authors <seckill@localhost>  $(date -R -d "@$epoch")
END
tar -C "$place" --format=ustar --sort=name --mtime="@$epoch" --mode=u+rw,go=rX,a-s \
    --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$1/$name.tar.gz"
echo "$1/$name.tar.gz"
