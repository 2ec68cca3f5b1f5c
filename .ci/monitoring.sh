#!/bin/sh
#
# monitoring.sh - check the rules and the dashboard in docker/monitoring with promtool: their
# syntax, the unit tests, and that each alert has a test in which it fires and one in which it
# does not.
set -eu
cd "$(dirname "$0")/.."
# shellcheck disable=SC2034 # used in able.sh
what="rules of Prometheus (promtool)"
# shellcheck source=.ci/able.sh
. .ci/able.sh

place=docker/monitoring

# verdicts EXPECTED: print the alerts that have a test with this expectation, sorted.
verdicts()
{
    awk -v expected="$1" '/alertname: / { alert = $2 }
        /exp_alerts:/ && ($2 == "[]" ? "quiet" : "fires") == expected { print alert }' \
        "$place"/tests/*.yaml | sort -u
}

# The queries of the dashboard as a file of rules; Grafana replaces its variable.
queries_as_rules()
{
    jq '[.. | .expr? // empty | gsub("\\$__rate_interval"; "1m")]
        | {groups: [{name: "queries", rules: to_entries | map({record: "query:\(.key)", expr: .value})}]}' "$@"
}

need_packages .ci/packages-monitoring promtool
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

promtool check config --lint=all --lint-fatal docker/prometheus.yml
for dashboard in "$place"/dashboards/*.json; do
    queries_as_rules "$dashboard" >"$files/queries.json"
    promtool check rules "$files/queries.json"
done
sed -n 's/^ *- alert: \([A-Za-z]*\).*/\1/p' "$place"/alerts/*.yaml | sort >"$files/alerts"
for expected in fires quiet; do
    verdicts "$expected" >"$files/$expected"
    diff "$files/alerts" "$files/$expected" >&2 || {
        echo "monitoring.sh: these alerts have no test ($expected), or have a test and do not exist" >&2
        exit 1
    }
done
promtool test rules "$place"/tests/*.yaml
