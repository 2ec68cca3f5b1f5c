# Prints the program in the section EXAMPLES of a manual page.
/^\.Sh /                        { is_example = $2 == "EXAMPLES" }
is_example && /^\.Ed/           { exit }
is_inside                       { gsub(/\\e/, "\\"); print }
is_example && /^\.Bd -literal/  { is_inside = 1 }
