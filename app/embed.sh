#!/bin/sh
# embed.sh FILE... - print the C file that holds these files, for embed.h.
set -eu
echo '#include "app/embed.h"'
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
    echo "    {\"$file\", embed_$n, embed_${n}_end},"
    n=$((n + 1))
done
echo '    {0}};'
