#!/bin/sh
# embed.sh BUILD FILE... - print a C file that contains the given files, see embed.h. The
# prefix BUILD/ of a generated file is removed from its path.
set -eu
build=$1
shift
echo '#include "app/core/embed.h"'
echo '#include <string.h>'
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
cat <<'EOF'
    {0}};

const struct embedded *embedded_find(const char *path)
{
    const struct embedded *file = embedded_files;

    while (file->path != NULL && strcmp(file->path, path) != 0)
        file++;
    return file->path == NULL ? NULL : file;
}
EOF
