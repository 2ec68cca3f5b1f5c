#!/bin/sh
#
# facts.sh COMMIT LIBRARY... - prints a C header with the build information of
# `seckill version`. LIBRARY is a name of pkg-config.
set -eu
printf '#define FACT_COMMIT "%s"\n' "$1"
shift
printf '#define FACT_LIBRARIES'
for library; do
    printf ' \\\n    "\\n  %s %s"' "$library" "$(pkg-config --modversion "$library")"
done
printf '\n'
