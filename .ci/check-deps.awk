# check-deps.awk SOURCES... - check the #include lines of SOURCES against deps.allow. Run it with cycles.awk.
# Refuses an edge between folders that deps.allow does not list, the header of a library in
# a folder that it does not list, and a cycle between folders or between the files of a
# folder. Prints each violation; exit status 1 if any.

function folder_of(path) {
    sub(/\/[^\/]*$/, "", path)
    return path
}

# X.c and X.h are one node of the graph. The headers of lib/ are included without "lib/". A header
# that is included without a folder is in the folder of the including file.
function node_of(path) {
    if (path !~ /\//)
        path = folder_of(FILENAME) "/" path
    if (path !~ /^(app|lib|load)\//)
        path = "lib/" path
    sub(/\.[ch]$/, "", path)
    return path
}

function has_word(list, word) { return index(" " list " ", " " word " ") > 0 }

function check_vendor(header,    pattern) {
    for (pattern in vendors) {
        if (header == pattern || (pattern ~ /\*>$/ && index(header, substr(pattern, 1, length(pattern) - 2)) == 1)) {
            if (!has_word(vendors[pattern], from))
                refuse(FILENAME ":" FNR ": " header " is not permitted in " from)
        }
    }
}

BEGIN {
    while ((getline line < "deps.allow") > 0) {
        sub(/#.*/, "", line)
        if (line !~ /:/)
            continue
        name = substr(line, 1, index(line, ":") - 1)
        sub(/^[^:]*:[ \t]*/, "", line)
        if (name ~ /^</)
            vendors[name] = line
        else
            edges[name] = line
    }
}

FNR == 1 {
    from = folder_of(FILENAME)
    if (!(from in edges))
        refuse(FILENAME ": deps.allow does not list the folder " from)
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    node = node_of(FILENAME)
    target = node_of(part[2])
    to = folder_of(target)
    if (to == from && target != node && !has_word(edges[node], target))
        edges[node] = edges[node] " " target
    else if (to != from && to != "lib/base" && !has_word(edges[from], to))
        refuse(FILENAME ":" FNR ": deps.allow has no edge " from " -> " to)
}

/^[ \t]*#[ \t]*include[ \t]*</ {
    match($0, /<[^>]*>/)
    check_vendor(substr($0, RSTART, RLENGTH))
}

END { end_with_cycles() }
