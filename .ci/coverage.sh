#!/bin/sh
#
# coverage.sh BUILD LEAST SOURCE... - print the line coverage of each source by the tests of BUILD
# (SAN=coverage), the lowest first, and then the total. Fails if the total is below LEAST per cent.
set -eu
build=$1
least=$2
shift 2

for source; do
    gcov -n -o "$build/${source%/*}" "$source" 2>/dev/null |
        awk -v source="$source" '
            /^File / { is_it = $0 == "File \047" source "\047" }
            is_it && /^Lines executed:/ {
                split($0, word, /[:% ]+/)
                printf "%6.2f %5d %s\n", word[3], word[5], source
                exit # the next line is the total
            }'
done | sort -n | awk -v least="$least" '
    { print; run += $1 * $2; lines += $2 }
    END {
        if (lines == 0) {
            print "no coverage data"
            exit 1
        }
        printf "coverage of lib/: %.1f %% of %d lines\n", run / lines, lines
        exit run / lines < least
    }'
