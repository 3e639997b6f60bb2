#!/usr/bin/env python3
"""Draws the pictures of the README from JSON files of lockstep_bench and lockstep_report, in any order.

  plot.py --svg FOLDER --png FOLDER [--build TEXT] [--commit TEXT] FILE.json ...

Of each benchmark the median of its repetitions is drawn; where they vary by more than 5 %, the point is hollow and the
variation printed. Each picture is written as SVG, for the README, and as PNG, to look at. What the files do not hold is said,
and its picture left out. Needs Python 3.9 and matplotlib (Debian: python3-matplotlib)."""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

UNSTABLE = 0.05  # share of the mean from which on repetitions vary too much

# The same colour for the same thing in all pictures; apart for the colour-blind (Okabe and Ito, 2008).
COLOURS = {"Tiled": "#0072B2", "Eigen": "#D55E00", "OpenBLAS": "#009E73", "Materialized": "#CC79A7",
           "Specification": "#666666", "ceiling": "#222222"}
GROUP_COLOURS = {1: "#56B4E9", 4: "#0072B2", 8: "#D55E00"}


class Point:
    """One benchmark: its family, type arguments and numbers from its name, and medians of what it counted."""

    def __init__(self, name, runs):
        match = re.match(r"(\w+)<(.*)>(/.*)", name)
        if not match:
            raise ValueError(f"the name {name} is none of lockstep_bench")
        self.family = match[1]
        self.element, self.variant = match[2].split(", ", 1)
        self.arguments = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", match[3])}
        self.suffix = re.search(r"padding:(\w+)", match[3])
        self.threads = "executor:" in match[3]
        self.counters = {key: statistics.median(run[key] for run in runs)
                         for key in ("flops", "bytes", "tokens", "time_over_none") if all(key in run for run in runs)}
        times = [run["cpu_time"] for run in runs]
        self.variation = statistics.stdev(times) / statistics.mean(times) if len(times) > 1 else 0.0

    def fill(self, colour):
        return "white" if self.variation > UNSTABLE else colour

    def __getitem__(self, argument):
        return self.arguments.get(argument, 0)


class Results:
    """What all files hold together."""

    def __init__(self, files):
        self.context, self.limits, self.unsteady = {}, {}, []
        runs = {}
        for file in files:
            try:
                content = json.loads(pathlib.Path(file).read_text())
            except ValueError as error:
                raise ValueError(f"{file} is no JSON, or not all of it: {error}") from None
            if "benchmarks" in content:
                self.context.update(content["context"])
                for run in content["benchmarks"]:
                    if run.get("run_type", "iteration") == "iteration" and not run.get("error_occurred"):
                        runs.setdefault(run.get("run_name", run["name"]), []).append(run)
            else:
                self.context.update({key: value for key, value in content.items() if key != "lines"})
                for line in content["lines"]:
                    if line["name"].startswith("limit_"):
                        self.limits[line["name"]] = line["ratio"] * 1e9
                        if line["status"] != "ok":
                            self.unsteady.append(f"{line['name']} is {line['status']}, its spread {100 * line['spread']:.1f} %")
        self.points = [Point(name, named) for name, named in runs.items()]
        self.best = self.context.get("instruction set", self.context.get("instruction_set", ""))

    def of(self, family, variant, sort_by=None, **arguments):
        """Points of one thread in order of an argument: files may hold them in any."""
        found = [p for p in self.points if p.family == family and p.variant == variant and p.element == "float"
                 and not p.threads and all(p[key] == value for key, value in arguments.items())]
        return sorted(found, key=lambda p: p[sort_by]) if sort_by else found

    @property
    def tiled(self):
        return f"Tiled, {self.best}"

    def caption(self, build, commit):
        lines = ([self.context.get("processor", ""), f"{self.best}, one thread", build],
                 [f"commit {commit}" if commit else "", self.context.get("date", "")[:10],
                  "medians of repetitions; hollow where they vary by more than 5 %"])
        return "\n".join(" · ".join(part for part in line if part) for line in lines)


class Missing(Exception):
    """A picture whose numbers are not there."""


def need(points, what):
    if not points:
        raise Missing(f"no {what}")
    return points


def limit(results, name):
    if name not in results.limits:
        raise Missing(f"no {name}: give the JSON of lockstep_report --filter limit")
    return results.limits[name]


def line(axes, points, x, y, colour, label, dashed=False):
    """A curve with its name at its end; hollow where repetitions varied."""
    xs, ys = [x(p) for p in points], [y(p) for p in points]
    axes.plot(xs, ys, color=colour, linewidth=1.8, linestyle="--" if dashed else "-")
    for p, px, py in zip(points, xs, ys):
        axes.plot(px, py, "o", color=colour, markersize=5, markerfacecolor=p.fill(colour))
    return xs[-1], ys[-1], label, colour


def label_ends(axes, ends, gap):
    """Names right of the ends of curves, moved apart where they would touch; gap: in points of the picture."""
    to_points = 72 / axes.figure.dpi
    placed = []
    for x, y, text, colour in sorted(ends, key=lambda end: end[1]):
        height = axes.transData.transform((x, y))[1] * to_points
        moved = max(height, placed[-1] + gap) if placed else height
        placed.append(moved)
        axes.annotate(text, (x, y), xytext=(8, moved - height - 3), textcoords="offset points", color=colour, fontsize=10,
                      annotation_clip=False)


def legend(axes):
    """Above the picture, beside its title, where no point can be."""
    axes.legend(frameon=False, fontsize=10, loc="lower right", bbox_to_anchor=(1.01, 0.99), ncol=4, handletextpad=0.2,
                columnspacing=1.2)


def tokens_axis(axes, label, lengths):
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(lengths), [str(n) for n in sorted(lengths)])
    axes.minorticks_off()
    axes.set_xlabel(label)


def prefill(results, axes):
    """Prefill: how much of the machine's peak is used?"""
    peak = limit(results, "limit_fma") / 1e9
    heads = {"heads": 32, "kv_heads": 8, "head_dim": 128}
    gflops = lambda p: p.counters["flops"] / 1e9
    ends, lengths = [], set()
    for variant in (results.tiled, "OpenBLAS", "Eigen", "Materialized", "Specification"):
        points = results.of("Prefill", variant, "q_len", **heads)
        if len(points) < 2:
            continue
        name = variant.split(",")[0]
        text = "Lockstep" if name == "Tiled" else f"plain {name}, same attention" if name in ("Eigen", "OpenBLAS") else name
        ends.append(line(axes, points, lambda p: p["q_len"], gflops, COLOURS[name], text))
        lengths.update(p["q_len"] for p in points)
    need(ends, "Prefill<float, ...> over several q_len")
    axes.set_ylim(0, peak)
    tokens_axis(axes, "tokens of the prompt", lengths)
    axes.set_ylabel("GFLOP/s")
    axes.annotate(f"top of the axis: {peak:.0f} GFLOP/s, multiply-adds in registers, measured", (0.01, 0.955),
                  xycoords="axes fraction", fontsize=10)
    label_ends(axes, ends, 14)


def decode(results, axes):
    """Decode: how close to the memory's bandwidth?"""
    stream = limit(results, "limit_stream")
    ends, lengths = [], set()
    for group in (1, 4, 8):
        points = results.of("Decode", results.tiled, "kv_len", heads=8 * group, kv_heads=8, head_dim=128)
        if len(points) < 2:
            continue
        ends.append(line(axes, points, lambda p: p["kv_len"], lambda p: p.counters["tokens"], GROUP_COLOURS[group],
                         f"{8 * group} heads over 8"))
        lengths.update(p["kv_len"] for p in points)
    points = results.of("Decode", "Eigen", "kv_len", heads=32, kv_heads=8, head_dim=128)
    if len(points) > 1:
        ends.append(line(axes, points, lambda p: p["kv_len"], lambda p: p.counters["tokens"], "#999999",
                         "plain Eigen, 32 over 8"))
    need(lengths, "Decode<float, ...> over several kv_len")
    xs = sorted(lengths)
    ys = [stream / (2 * 8 * 128 * 4 * n) for n in xs]
    axes.plot(xs, ys, color=COLOURS["ceiling"], linewidth=1.4, linestyle="--")
    ends.append((xs[-1], ys[-1], f"a read of memory, {stream / 1e9:.1f} GB/s", COLOURS["ceiling"]))
    axes.set_yscale("log")
    tokens_axis(axes, "tokens in the cache (float, 8 kv heads of 128; short caches stay in the CPU's)", xs)
    axes.set_ylabel("tokens a second, one layer")
    label_ends(axes, ends, 14)


def roofline(results, axes):
    """Roofline: what limits each workload?"""
    peak, stream = limit(results, "limit_fma") / 1e9, limit(results, "limit_stream") / 1e9
    intensity = lambda p: p.counters["flops"] / p.counters["bytes"]
    gflops = lambda p: p.counters["flops"] / 1e9
    families = (("Prefill", results.tiled, "q_len", {"heads": 32, "kv_heads": 8, "head_dim": 128}, "prefill", "#0072B2", "o"),
                ("Chunk", results.tiled, "past", {"heads": 32, "kv_heads": 8, "head_dim": 128}, "chunk of 256", "#56B4E9", "s"),
                ("Decode", results.tiled, "kv_len", {"kv_heads": 8, "head_dim": 128}, "decode", "#D55E00", "D"),
                ("Project", results.best, "rows", {"out": 4096, "in": 4096}, "projection", "#009E73", "^"))
    points = []
    for family, variant, order, arguments, text, colour, marker in families:
        found = results.of(family, variant, order, **arguments)
        points += found
        for i, p in enumerate(found):
            axes.plot(intensity(p), gflops(p), marker, color=colour, markersize=6, linestyle="",
                      markerfacecolor=p.fill(colour), label=text if i == 0 else None)
    need(points, "Prefill, Chunk, Decode or Project of float")
    left, right = min(map(intensity, points)) / 2, max(map(intensity, points)) * 2
    ridge = peak / stream
    axes.plot([left, ridge, max(right, 2 * ridge)], [left * stream, peak, peak], color=COLOURS["ceiling"], linewidth=1.4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.annotate(f"multiply-adds in registers, {peak:.0f} GFLOP/s", (max(right, 2 * ridge), peak), xytext=(0, 5),
                  textcoords="offset points", ha="right", fontsize=10)
    axes.annotate(f"a read of memory, {stream:.1f} GB/s", (left, left * stream), xytext=(16, -2),
                  textcoords="offset points", fontsize=10)
    axes.set_ylim(min(left * stream, *map(gflops, points)) / 1.5, peak * 1.6)
    axes.set_xlabel("FLOP a byte (keys, values or weights once, as stored); "
                    "what lies in the CPU's caches passes memory's slope")
    axes.set_ylabel("GFLOP/s")
    legend(axes)


def kernels(results, axes):
    """What does each kernel give?"""
    variants = [(results.tiled, f"Tiled, {results.best}", "#0072B2")]
    for other in ("avx2", "portable"):
        if other != results.best:
            variants.append((f"Tiled, {other}", f"Tiled, {other}", "#0072B2"))
    variants += [("Specification", "Specification, scalar", COLOURS["Specification"]),
                 ("Materialized", "Materialized, textbook", COLOURS["Materialized"]),
                 ("Eigen", "plain Eigen", COLOURS["Eigen"]), ("OpenBLAS", "OpenBLAS", COLOURS["OpenBLAS"])]
    arguments = {"heads": 32, "kv_heads": 8, "head_dim": 128}
    rows = []
    for variant, text, colour in variants:
        points = [p for p in results.of("Prefill", variant, **arguments) if p["q_len"] == 128] + \
                 [p for p in results.of("Decode", variant, **arguments) if p["kv_len"] == 128]
        for p in points:
            rows.append((text, p, colour))
    need(rows, "Prefill at q_len:128 or Decode at kv_len:128")
    names = list(dict.fromkeys(text for text, _, _ in rows))
    most = max(p.counters["flops"] / 1e9 for _, p, _ in rows)
    for text, p, colour in rows:
        value = p.counters["flops"] / 1e9
        decoding = p.family == "Decode"
        at = names.index(text) + (0.2 if decoding else -0.2)
        axes.barh(at, value, 0.36, color=p.fill(colour), edgecolor=colour, alpha=0.55 if decoding else 1)
        axes.text(value + most / 100, at, f"{value:.3g}" + (" decode" if decoding else " prefill"), va="center", fontsize=9)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.15)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("GFLOP/s: a prompt of 128 tokens, and one token on 127 (32 heads over 8 of 128)")


def policies(results, axes):
    """What does each policy cost?"""
    found = need([p for p in results.points if p.family == "Policy" and "time_over_none" in p.counters], "Policy<...>")
    rows = {}
    for p in found:
        kernel, policy = p.variant.split(", ", 1)
        name = {"weights": "weights written", "lse": "log-sum-exp written"}.get(policy, policy)
        name += (f", {p.suffix[1]}" if p.suffix else "") + ("" if kernel == "Tiled" else f" ({kernel})")
        rows.setdefault(name, []).append(p)
    order = sorted(rows, key=lambda name: max(p.counters["time_over_none"] for p in rows[name]))
    marks = {"prompt": ("o", "#0072B2"), "chunk": ("D", "#D55E00"), "layer": ("s", "#009E73")}
    said = set()
    for at, name in enumerate(order):
        values = [p.counters["time_over_none"] for p in rows[name]]
        axes.plot([min(1, *values), max(1, *values)], [at, at], color="#bbbbbb", linewidth=1.2, zorder=1)
        for p in rows[name]:
            kind = "chunk" if p["past"] else "layer" if "Rope" in name else "prompt"
            text = {"prompt": f"a prompt of {p['q_len']}", "chunk": f"{p['q_len']} tokens after {p['past']}",
                    "layer": "a whole layer"}[kind]
            marker, colour = marks[kind]
            axes.plot(p.counters["time_over_none"], at, marker, color=colour, markersize=6,
                      label=None if kind in said else text)
            said.add(kind)
    axes.axvline(1, color=COLOURS["ceiling"], linewidth=1)
    axes.set_yticks(range(len(order)), order)
    axes.grid(axis="y", visible=False)
    times = [p.counters["time_over_none"] for p in found]
    ticks = [2.0 ** n for n in range(math.floor(math.log2(min(0.99, *times))), math.ceil(math.log2(max(1.01, *times))) + 1)]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(ticks[0], ticks[-1])
    axes.set_xlabel("time, as a multiple of the time without the policy (causal, no logits of their own)")
    legend(axes)


# Width and height in inches; the share of the width that labels right of the curves take; the room for names on the left.
PICTURES = ((prefill, (8.3, 4.3), 0.74, 0.08), (decode, (8.3, 4.3), 0.75, 0.08), (roofline, (8.3, 4.6), 0.97, 0.08),
            (kernels, (8.3, 4.3), 0.96, 0.21), (policies, (8.3, 5.2), 0.97, 0.27))


def draw(results, svg, png, build, commit):
    """Writes each picture; returns how many could be drawn."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    # The same bytes for the same numbers, and text that can be read and searched.
    matplotlib.rcParams.update({"svg.hashsalt": "lockstep", "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False,
                                "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e4e4", "axes.axisbelow": True})
    for folder in (svg, png):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for picture, size, right, left in PICTURES:
        figure, axes = pyplot.subplots(figsize=size)
        figure.subplots_adjust(left=left, right=right, top=0.9, bottom=1 / size[1])
        try:
            picture(results, axes)
        except Missing as missing:
            print(f"{picture.__name__}: not drawn, {missing}", file=sys.stderr)
            continue
        finally:
            pyplot.close(figure)
        figure.text(0.012, 0.955, picture.__doc__, fontsize=12, fontweight="bold", va="center")
        figure.text(0.012, 0.025, results.caption(build, commit), fontsize=7.5, color="#666666")
        figure.savefig(svg / f"{picture.__name__}.svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png / f"{picture.__name__}.png", dpi=110)
        drawn += 1
    return drawn


def commit_of_source():
    try:
        return subprocess.run(["git", "describe", "--always", "--dirty"], cwd=pathlib.Path(__file__).parent,
                              capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("--svg", type=pathlib.Path, required=True, help="folder of pictures for the README")
    parser.add_argument("--png", type=pathlib.Path, required=True, help="folder of pictures to look at")
    parser.add_argument("--build", default="", help="compiler and flags, for the caption")
    parser.add_argument("--commit", default=None, help="for the caption; that of the source, where not given")
    options = parser.parse_args(arguments)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(f"{sys.executable} has no matplotlib: on Debian, apt-get install python3-matplotlib", file=sys.stderr)
        return 2
    try:
        results = Results(options.files)
    except (OSError, ValueError, KeyError) as error:
        print(f"no results to draw: {error}", file=sys.stderr)
        return 2
    for said in results.unsteady:
        print(said)
    for point in sorted(results.points, key=lambda p: -p.variation):
        if point.variation > UNSTABLE:
            print(f"varies by {100 * point.variation:.1f} %: {point.family}<{point.variant}> {point.arguments}")
    commit = commit_of_source() if options.commit is None else options.commit
    drawn = draw(results, options.svg, options.png, options.build, commit)
    print(f"{drawn} of {len(PICTURES)} pictures in {options.svg} and {options.png}")
    return 0 if drawn == len(PICTURES) else 1


if __name__ == "__main__":
    sys.exit(main())
