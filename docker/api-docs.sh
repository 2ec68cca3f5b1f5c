#!/bin/sh
#
# api-docs.sh OUTPUT - render app/api/openapi.yaml as one page that loads nothing else, with Redoc.
# Needs node and npm, which downloads Redoc and a YAML parser once, into var/api-docs. Exit code
# 77: npm has failed; the last line says why.
set -eu
output=$(realpath -m "$1")
cd "$(dirname "$0")/.."
place=var/api-docs
redoc="redoc-2.5.4"
yaml="yaml-2.8.1"

# fetch PACKAGE: unpack it into $place.
fetch()
{
    [ ! -e "$place/$1/package.json" ] || return 0
    why=$(cd "$place" && npm pack --silent "${1%-*}@${1##*-}" 2>&1) || {
        echo "npm pack ${1%-*}: $(echo "$why" | tail -n 1)"
        exit 77
    }
    mkdir -p "$place/$1.new"
    tar -C "$place/$1.new" --strip-components=1 -xzf "$place/$1.tgz"
    mv "$place/$1.new" "$place/$1"
}

command -v npm >/dev/null || {
    echo "npm is not installed"
    exit 77
}
mkdir -p "$place" "$(dirname "$output")"
fetch "$redoc"
fetch "$yaml"
node - "$place/$redoc/bundles/redoc.standalone.js" "./$place/$yaml" "$output" <<'END'
const fs = require("node:fs");
const [redoc, yaml, output] = process.argv.slice(2);
// Inside of a script, "</script" would end it.
const escaped = (text) => text.replace(/<\/(?=script)/gi, "<\\/");
const contract = require(fs.realpathSync(yaml)).parse(fs.readFileSync("app/api/openapi.yaml", "utf8"), { maxAliasCount: -1 });
const logo = "https://cdn.redoc.ly/redoc/logo-mini.svg"; // Redoc would load it
// Long lines of the samples wrap, because not all browsers can scroll sideways by the keyboard.
const options = { expandResponses: "200,201", theme: { typography: { code: { wrap: true } } } };
// Redoc has no h4, so each h5 gets the level below the heading before it. Redoc adds more when the reader opens
// an answer.
const mend = (page) => {
    const setLevels = () => {
        let level = 0;
        for (const each of page.querySelectorAll("h1, h2, h3, h5")) {
            if (each.matches("h5"))
                each.setAttribute("aria-level", level + 1);
            else
                level = Number(each.tagName[1]);
        }
    };
    new MutationObserver(setLevels).observe(page, { childList: true, subtree: true });
};
fs.writeFileSync(output, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>seckill ${contract.info.version}: API</title>
<style>body { margin: 0 } pre { overflow-wrap: anywhere }</style>
<body>
<main id="page"></main>
<script>${escaped(fs.readFileSync(redoc, "utf8")).replaceAll(logo, "data:,")}</script>
<script>
const page = document.getElementById("page");
(${mend})(page);
Redoc.init(${escaped(JSON.stringify(contract))}, ${JSON.stringify(options)}, page);
</script>
`);
END
