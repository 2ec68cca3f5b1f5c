# cycles.awk - find cycles. edges[NODE] contains the nodes that NODE needs, separated by spaces.

function refuse(text) { print text; failures++ }

# Depth-first search. A node that is reached again while its visit is open closes a cycle.
function visit(node, path,    i, names, count) {
    if (state[node] == "done")
        return
    if (state[node] == "open") {
        refuse("cycle:" path " -> " node)
        return
    }
    state[node] = "open"
    count = split(edges[node], names, " ")
    for (i = 1; i <= count; i++)
        visit(names[i], path " " node)
    state[node] = "done"
}

# The exit status is 1 if anything was refused.
function end_with_cycles(    node) {
    for (node in edges)
        visit(node, "")
    exit failures > 0
}
