#!/bin/sh
#
# changed.sh - print the files that differ from the last commit that this branch shares with
# origin/main, or with main if there is no origin/main. Untracked files are printed, too.
set -eu
cd "$(dirname "$0")/.."
base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || echo HEAD)
git diff --name-only --diff-filter=d "$base"
git ls-files --others --exclude-standard
