#!/usr/bin/env -S python3 -B
"""sbom.py PROGRAM VERSION COMMIT - prints the libraries of PROGRAM as SPDX 2.3 JSON.

The libraries are those that the loader finds on this machine, with their Debian packages.
Libraries that PROGRAM names are linked; the others are dependencies of those. The output for
the same program on the same machine is always the same."""

import hashlib
import json
import os
import subprocess
import sys
import time

LINKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "linked.sh")


def linked(program, *options):
    """Maps (package, version, architecture) to its libraries."""
    found = {}
    text = subprocess.run([LINKED, program, *options], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        package, version, architecture, library = line.split()
        found.setdefault((package, version, architecture), []).append(library)
    return found


def describe(package, version, architecture, libraries):
    suite = next((line.split("=")[1].strip().strip('"') for line in open("/etc/os-release")
                  if line.startswith("VERSION_CODENAME=")), "unknown")
    return {"SPDXID": f"SPDXRef-{package}", "name": package, "versionInfo": version,
            "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            "comment": " ".join(sorted(libraries)),
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{package}@{version.replace('+', '%2B').replace(':', '%3A')}"
                                    f"?arch={architecture}&distro={suite}"}]}


def main(program, version, commit):
    with open(program, "rb") as content:
        digest = hashlib.sha256(content.read()).hexdigest()
    created = int(os.environ.get("SOURCE_DATE_EPOCH", os.path.getmtime(program)))
    direct, whole = linked(program), linked(program, "--all")
    own = {"SPDXID": "SPDXRef-seckill", "name": "seckill", "versionInfo": version,
           "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "MIT", "licenseDeclared": "MIT",
           "copyrightText": "2026 the seckill authors", "primaryPackagePurpose": "APPLICATION",
           "sourceInfo": f"commit {commit}",
           "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-seckill")]
    for package in sorted(whole):
        kind = "DYNAMIC_LINK" if package in direct else "DEPENDS_ON"
        relations.append(("SPDXRef-seckill", kind, f"SPDXRef-{package[0]}"))
    json.dump({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"seckill-{version}", "documentNamespace": f"https://spdx.org/spdxdocs/seckill-{version}-{digest}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(created)),
                         "creators": ["Tool: seckill-sbom"]},
        "packages": [own] + [describe(*package, libraries) for package, libraries in sorted(whole.items())],
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations]}, sys.stdout, indent=2)
    print()


main(*sys.argv[1:])
