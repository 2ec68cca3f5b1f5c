# check-symbols.awk - refuse cycles between objects in the output of `nm -A -g`. Run it with cycles.awk.
# #include lines do not show such a cycle if a header declares functions of several sources.

{
    object = $1
    sub(/:.*/, "", object)
    if ($(NF - 1) == "U")
        needed[object] = needed[object] " " $NF
    else
        definition[$NF] = object
}

END {
    for (object in needed) {
        count = split(needed[object], names, " ")
        for (i = 1; i <= count; i++) {
            other = definition[names[i]]
            if (other != "" && other != object && index(edges[object] " ", " " other " ") == 0)
                edges[object] = edges[object] " " other
        }
    }
    end_with_cycles()
}
