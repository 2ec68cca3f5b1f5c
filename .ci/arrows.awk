# arrows.awk SOURCES... - hold their #includes against deps.allow, and deps.allow against
# cycles. Prints each that is wrong; exit code 1 when there is one.

function wrong(text) { print text; failures++ }

function module(path) {
    if (path ~ /^lib\//)
        sub(/^lib\//, "", path)
    if (path ~ /^app\//) {
        sub(/^app\//, "", path)
        sub(/[_.].*/, "", path)
    }
    sub(/\/.*/, "", path)
    return path
}

# Depth first: a module that is met again on its own way closes a cycle.
function visit(name, way,    i, names, count) {
    if (state[name] == "done")
        return
    if (state[name] == "open") {
        wrong("deps.allow: cycle" way " -> " name)
        return
    }
    state[name] = "open"
    count = split(edges[name], names, " ")
    for (i = 1; i <= count; i++)
        visit(names[i], way " -> " name)
    state[name] = "done"
}

function vendor_is_free(header,    pattern) {
    for (pattern in owners) {
        if (header == pattern || (pattern ~ /\*>$/ && index(header, substr(pattern, 1, length(pattern) - 2)) == 1))
            return index(" " owners[pattern] " ", " " from " ") > 0
    }
    return 1
}

function read_allowed(    line, name) {
    while ((getline line < "deps.allow") > 0) {
        sub(/#.*/, "", line)
        if (line !~ /:/)
            continue
        name = substr(line, 1, index(line, ":") - 1)
        sub(/^[^:]*:[ \t]*/, "", line)
        if (name ~ /^</)
            owners[name] = line
        else {
            edges[name] = line
            known[name] = 1
        }
    }
    for (name in known)
        visit(name, "")
}

BEGIN { read_allowed() }

FNR == 1 {
    from = module(FILENAME)
    if (!(from in known))
        wrong(FILENAME ": deps.allow does not know the module " from)
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    to = module(part[2])
    if (to != from && to != "base" && index(" " edges[from] " ", " " to " ") == 0)
        wrong(FILENAME ":" FNR ": deps.allow has no arrow " from " -> " to)
}

/^[ \t]*#[ \t]*include[ \t]*</ {
    match($0, /<[^>]*>/)
    header = substr($0, RSTART, RLENGTH)
    if (!vendor_is_free(header))
        wrong(FILENAME ":" FNR ": deps.allow keeps " header " from " from)
}

END { exit failures > 0 }
