# plot.gp - draw DIR/KIND.png from the tables of DIR/KIND.dat, which plot.py writes.
#
#   gnuplot -c load/plot.gp bench|growth|soak|prove DIR

kind = ARG1
data = ARG2 . "/" . kind . ".dat"
stats data using 0 nooutput
tables = STATS_blocks

array colours[5] = ["#16a34a", "#3b82f6", "#808080", "#d97706", "#ef4444"]
rows(panels) = int(ceil(panels / 2.0))

# The height depends on the number of panels.
panels = kind eq "bench" ? 2 : kind eq "soak" ? 4 : tables
set terminal pngcairo noenhanced font "sans,11" size 1200, 90 + 330 * rows(panels)
set output ARG2 . "/" . kind . ".png"
set multiplot layout rows(panels), 2 title "seckill: " . kind
set border 3
set tics nomirror
set grid
set key autotitle columnheader
set style fill solid 0.8 noborder
set format y "%g"
set yrange [0:*]

if (kind eq "bench") {
    # Horizontal bars from top to bottom, each with the spread of the rounds.
    unset key
    set format x "%.0s%c"
    set xtics rotate by -30
    set format y "%s"
    set yrange [*:*] reverse
    set offsets 0, 0, 0.6, 0.6
    set title "per second; lines: slowest to fastest round"
    plot data index 0 using 2:0:(0):2:($0 - 0.35):($0 + 0.35):ytic(1) with boxxyerror lc rgb colours[2], \
         "" index 0 using 2:0:3:4 with xerrorbars pt 0 lw 2 lc rgb "black"
    set key left
    set offsets
    set logscale xy
    set xtics norotate ("50 %%" 2, "90 %%" 10, "99 %%" 100, "99.9 %%" 1e3, "99.99 %%" 1e4, "99.999 %%" 1e5)
    set xrange [1.2:*]
    set yrange [*:*] noreverse
    set ytics auto
    set format y "%g ms"
    set title "latency of durable orders under open-loop load"
    plot for [i = 1:2] data index i using 1:2 with lines lw 2 lc rgb colours[2 * i]
}

if (kind eq "growth") {
    set key bottom
    set offsets 0.3, 0.3, 0, 0
    set format y "%.1s%c"
    do for [i = 0:tables - 1] {
        plot data index i using 0:2:3:4:xtic(1) with yerrorlines lw 2 pt 7 lc rgb colours[2] title columnheader(2)
    }
}

if (kind eq "soak") {
    set key outside top center horizontal
    set xlabel "minutes; dashed lines: faults"
    set y2range [0:1]
    array columns[4] = [2, 2, 4, 5]
    do for [i = 0:3] {
        if (i == 1) { set logscale y; set yrange [*:*] } else { unset logscale; set yrange [0:*] }
        plot for [k = 2:columns[i + 1]] data index i using 1:k with lines lw 1.5 lc rgb colours[k - 1], \
             data index 4 using 1:2 axes x1y2 with impulses dt 2 lc rgb colours[5] notitle
    }
}

if (kind eq "prove") {
    # Stacked: placed, done, refused, failed. Red background: a server is down.
    array kinds[4] = [colours[1], colours[2], colours[3], colours[5]]
    set key outside right
    set y2range [0:1]
    set xlabel "seconds"
    set ylabel "answers per second"
    set format y "%.1s%c"
    do for [i = 0:tables - 1] {
        set title system(sprintf("sed -n 's/^\"\\([^\"]*\\).*/\\1/p' %s | sed -n %dp", data, i + 1))
        plot data index i using 1:6 axes x1y2 with filledcurves x1 fc rgb "#fbd5d5" notitle, \
             for [k = 5:2:-1] "" index i using 1:(sum [c = 2:k] column(c)) with filledcurves x1 \
                 fc rgb kinds[k - 1] title columnheader(k)
    }
}
unset multiplot
