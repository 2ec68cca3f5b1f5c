#!/bin/sh
#
# image.sh PROGRAM DIRECTORY - make the root of an image with the program, bash, the libraries
# of both, and the certificates of public authorities. Scanners for vulnerabilities find the
# packages of the libraries in var/lib/dpkg/status.d.
set -eu
program=$1
root=$2

# The libraries and the loader, by their paths.
libraries()
{
    ldd "$program" /bin/bash | grep -o '/[^ :]*\.so[^ :]*' | sort -u
}

packages()
{
    { app/install/linked.sh "$program" --all | cut -d ' ' -f 1 && echo bash && echo ca-certificates; } | sort -u
}

install -D "$program" "$root/usr/bin/seckill"
install -D /bin/bash "$root/bin/bash"
for file in $(libraries) /etc/ssl/certs/ca-certificates.crt; do
    install -D "$file" "$root$file"
done
mkdir -p "$root/var/lib/dpkg/status.d" "$root/tmp"
for package in $(packages); do
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
