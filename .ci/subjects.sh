#!/bin/sh
#
# subjects.sh - check the subjects of the commits after BASE: "area: imperative summary", at
# most 72 characters. Merges are not checked. A shallow clone has only newer commits than
# BASE, or BASE itself.
set -eu
cd "$(dirname "$0")/.."
BASE=7e4cead6e72d3c94d945f732cdb530dad57a82bd

not_run()
{
    echo "not run: subjects of commits ($*)"
    exit 0
}

git rev-parse HEAD >/dev/null 2>&1 || not_run "no git repository"
range=HEAD
if git cat-file -e "$BASE^{commit}" 2>/dev/null; then
    range=$BASE..HEAD
elif [ "$(git rev-parse --is-shallow-repository)" = false ]; then
    not_run "the history does not contain $BASE"
fi

git log --no-merges --format='%h %s' "$range" | awk '
    {
        subject = substr($0, length($1) + 2)
        fault = ""
        if (length(subject) > 72)
            fault = length(subject) " characters, at most 72"
        else if (subject !~ /^[A-Za-z0-9_.\/-]+(, [A-Za-z0-9_.\/-]+)*: [^ ]/)
            fault = "not of the form \"area: summary\""
        else if (subject ~ /\.$/)
            fault = "ends with a full stop"
        else {
            verb = subject
            sub(/^[^:]*: /, "", verb)
            sub(/[^A-Za-z].*/, "", verb)
            if (verb ~ /^(add|chang|fix|remov|renam|mov|mak|updat|us|allow|improv|introduc|implement|refactor)(e?s|ed|ing)$/)
                fault = "not imperative: \"" verb "\""
        }
        if (fault != "") {
            printf "%s %s\n    %s\n", $1, subject, fault
            bad = 1
        }
    }
    END { exit bad }'
