#!/bin/sh
#
# facts.sh COMMIT LIBRARY... - a C header with what `seckill version` tells of the build.
# A LIBRARY is by its name for pkg-config.
set -eu
printf '#define FACT_COMMIT "%s"\n' "$1"
shift
printf '#define FACT_LIBRARIES'
for library; do
    printf ' \\\n    "\\n  %s %s"' "$library" "$(pkg-config --modversion "$library")"
done
printf '\n'
