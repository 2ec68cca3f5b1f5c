#!/bin/sh
#
# manual.sh PROGRAM VERSION - prints the manual seckill(1) with the settings of PROGRAM.
set -eu
"$1" serve --help | awk -v version="$2" '
    FNR == NR && /^Environment:/ { inside = 1; next }
    FNR == NR {
        gsub(/\\/, "\\e")
        gsub(/-/, "\\-")
        if (inside && /^  SECKILL/) { sub(/^ +/, ""); text = text ".TP\n.B " $0 "\n" }
        else if (inside) { sub(/^ +/, "\\\\\\&"); text = text $0 "\n" }
        next
    }
    /^@ENVIRONMENT@$/ { printf "%s", text; next }
    { gsub(/@VERSION@/, version); print }
' - app/install/seckill.1.in
