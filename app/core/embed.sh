#!/bin/sh
# embed.sh BUILD FILE... - print the C file that holds these files, for embed.h. Those that
# were made in the directory BUILD are named as if they were in the source tree.
set -eu
build=$1
shift
echo '#include "app/core/embed.h"'
n=0
for file in "$@"; do
    cat <<EOF
__asm__(".pushsection .rodata\n.global embed_$n\nembed_$n: .incbin \"$file\"\n"
        ".global embed_${n}_end\nembed_${n}_end: .byte 0\n.popsection\n");
extern const char embed_${n}[], embed_${n}_end[];
EOF
    n=$((n + 1))
done
echo 'const struct embedded embedded_files[] = {'
n=0
for file in "$@"; do
    tag=$(sha256sum "$file" | cut -c 1-16)
    echo "    {\"${file#"$build"/}\", \"$tag\", embed_$n, embed_${n}_end},"
    n=$((n + 1))
done
echo '    {0}};'
