# check-symbols.awk - read `nm -A -g` of objects; refuse objects that need each other in a circle,
# which #include lines do not show when a header declares what several sources define. With cycles.awk.

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
