#!/bin/sh
#
# kubernetes.sh - check the example manifest against the schemas of Kubernetes; unknown fields are
# errors. pip installs kubernetes-validate, which contains the schemas, in var/kubernetes.
set -eu
cd "$(dirname "$0")/.."
version=1.37.0
kubernetes=1.35
place=var/kubernetes

if [ ! -e "$place/$version" ]; then
    rm -rf "$place"
    why=$({ python3 -m venv "$place" && timeout 300 "$place/bin/pip" install --quiet \
        "kubernetes-validate==$version"; } 2>&1) || {
        echo "not run: manifest of Kubernetes (pip cannot install kubernetes-validate: $(echo "$why" | tail -n 1))"
        exit 0
    }
    touch "$place/$version"
fi
"$place/bin/kubernetes-validate" --strict -k "$kubernetes" docker/kubernetes.yaml
# The check itself: a field that does not exist is refused.
! sed 's/preStop:/preStopp:/' docker/kubernetes.yaml | "$place/bin/kubernetes-validate" --strict -k "$kubernetes" - >/dev/null 2>&1 || {
    echo "kubernetes.sh: an unknown field was accepted" >&2
    exit 1
}
