"""plot.py - the charts of a benchmark, a soak test or a proof: the data as text, and one call of
gnuplot, which reads plot.gp and draws KIND.png from KIND.dat.

The data are tables, one for each curve or panel: a list of rows, the first one the titles."""

import os
import subprocess

import harness
import results

SECONDS_PER_MIN = 60


def draw(kind, place, tables):
    """Write PLACE/KIND.dat and draw PLACE/KIND.png; print its name, or why there is none."""
    with open(f"{place}/{kind}.dat", "w") as out:
        out.write("\n\n\n".join("\n".join(map(format_row, rows)) for rows in tables) + "\n")
    try:
        done = subprocess.run(["gnuplot", "-c", f"{harness.LOAD}/plot.gp", kind, place],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print("no chart: gnuplot is not installed")
        return
    if done.returncode != 0 or done.stderr:
        print(f"no chart: gnuplot: {done.stderr.strip()}")
    else:
        print(f"chart: {place}/{kind}.png")


def format_row(row):
    """Text in quotes; a missing number as gnuplot reads it."""
    return " ".join(f'"{value}"' if isinstance(value, str) else "NaN" if value is None else f"{value:.10g}"
                    for value in row)


def tables_of_bench(result):
    """Rates with the slowest and the fastest round; then the latency of each load."""
    rates = [(title, result[f"{name}_per_s"], *spread(result[f"{name}_per_s_rounds"]))
             for name, title, *_ in results.RATES + results.YARDSTICKS]
    latencies = [
        [("share", f"{title} of peak")]
        + [(1 / (1 - share), us / 1000) for us, share in result["latency"][load]["points"] if share < 1 and us]
        for load, title in results.LOADS]
    return [[("name", "per second", "lowest", "highest"), *rates], *latencies]


def spread(values):
    return min(values), max(values)


def tables_of_growth(dimensions):
    """For each dimension the orders per second at each point."""
    return [[("x", f"orders/s by {each['name']}", "lowest", "highest")]
            + [(f"{point['x']:,}", point["orders_per_s"], *spread(point["rounds"])) for point in each["points"]]
            for each in dimensions]


def tables_of_soak(result):
    """Orders per second, p99, memory, open files and connections by minute; then the faults."""
    samples, slices = result["samples"], result["slices"]
    slice_min = result["minutes"] / len(slices)
    return [
        [("minute", "orders/s"), *order_rates(samples)],
        [("minute", "p99, ms")] + [((number + 0.5) * slice_min, max(each["p99_us"], 1) / 1000)
                                   for number, each in enumerate(slices)],
        [("minute", "instance 1, MiB", "instance 2, MiB", "Redis, MiB")] + [
            (each["at_s"] / SECONDS_PER_MIN, *(instance and instance["pss_kib"] / 1024
                                               for instance in each["instances"]),
             each["redis"] and each["redis"]["bytes"] / 2**20) for each in samples],
        [("minute", "instance 1, open files", "instance 2, open files", "Redis, clients",
          "Postgres, connections")] + [
            (each["at_s"] / SECONDS_PER_MIN, *(instance and instance["fds"] for instance in each["instances"]),
             each["redis"] and each["redis"]["clients"],
             each["postgres"] and each["postgres"]["connections"]) for each in samples],
        [("minute", "faults")] + [(fault["at_s"] / SECONDS_PER_MIN, 1) for fault in result["faults"]]]


def order_rates(samples):
    """The rate between two samples, of the instances that ran during the whole time."""
    rates = []
    for last, now in zip(samples, samples[1:]):
        placed = [after["answers"].get("201", 0) - before["answers"].get("201", 0)
                  for before, after in zip(last["instances"], now["instances"])
                  if before and after and before["pid"] == after["pid"]]
        rates.append((now["at_s"] / SECONDS_PER_MIN, sum(placed) / (now["at_s"] - last["at_s"])))
    return rates


def tables_of_prove(result):
    """For each scenario the answers per second by kind, and whether a server was down."""
    return [timeline_table(f"{each['stage']}, {each['instances']} x", each["timeline"])
            for each in result["stages"]]


def timeline_table(title, timeline):
    bin_s, kinds = timeline["bin_s"], timeline["answers"]
    down_from_s, down_to_s = timeline["down_s"] or (0, 0)
    rows = [(number * bin_s, *(count / bin_s for count in counts),
             int(down_from_s < (number + 1) * bin_s and number * bin_s < down_to_s))
            for number, counts in enumerate(zip(*kinds.values()))]
    return [(title, *kinds, "down"), *rows]
