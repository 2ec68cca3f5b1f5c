#!/bin/sh
#
# kubernetes.sh - check the example manifest against the schemas of Kubernetes; unknown fields are
# errors. kubernetes-validate contains the schemas.
set -eu
cd "$(dirname "$0")/.."
kubernetes=1.35
place=var/kubernetes

.ci/venv.sh "$place" kubernetes-validate 1.37.0
"$place/bin/kubernetes-validate" --strict -k "$kubernetes" docker/kubernetes.yaml
# This tests the check itself: an unknown field must be refused.
! sed 's/preStop:/preStopp:/' docker/kubernetes.yaml | "$place/bin/kubernetes-validate" --strict -k "$kubernetes" - >/dev/null 2>&1 || {
    echo "kubernetes.sh: an unknown field was accepted" >&2
    exit 1
}
