#!/bin/sh
#
# subjects.sh - check the subjects of the commits after BASE: "area: imperative summary", at
# most 72 characters. The summary begins with a verb of .ci/verbs. Merges are not checked. A
# shallow clone has only newer commits than BASE, or BASE itself.
set -eu
cd "$(dirname "$0")/.."
BASE=47c18fefcbd7940bc1988a9a6e70e77d8756ec6c

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
    FILENAME != "-" {
        for (i = 1; i <= NF; i++)
            verbs[$i] = 1
        next
    }
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
            verb = tolower(subject)
            sub(/^[^:]*: */, "", verb)
            sub(/[^a-z].*/, "", verb)
            if (!(verb in verbs))
                fault = "begins with no verb of .ci/verbs: \"" verb "\""
        }
        if (fault != "") {
            printf "%s %s\n    %s\n", $1, subject, fault
            bad = 1
        }
    }
    END { exit bad }' .ci/verbs -
