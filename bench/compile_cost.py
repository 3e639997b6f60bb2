#!/usr/bin/env python3
"""What compiling costs, as a table: CPU seconds and peak memory of one file, and the size of its code; then the length of
the headers in the first folder.

  compile_cost.py --include FOLDER ... [--repeat N] COMPILER ...

Compilers that are not there are passed over with a word. Of several runs the fastest counts. Needs the standard library."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path(__file__).parent / "compile_cost"
ROWS = (("`#include <lockstep/lockstep.hpp>`", "header.cpp", []),
        ("one layer: construct, prefill, decode", "layer.cpp", []),
        ("two layers of different policies", "layer.cpp", ["-DMORE_LAYERS"]))


def compile_once(command, folder):
    """CPU seconds and peak megabytes of a compilation and the processes that it starts."""
    process = subprocess.Popen(command, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def code_kilobytes(file):
    """Code and constants, by binutils' size."""
    lines = subprocess.run(["size", file], capture_output=True, text=True, check=True).stdout.splitlines()
    return int(lines[1].split()[0]) / 1024


def lines_of_code(folder):
    """How many files of headers there are, and their lines without blank ones and those of comments alone."""
    files = [file for file in pathlib.Path(folder).rglob("*") if file.suffix in (".hpp", ".inl")]
    lines = [line.strip() for file in files for line in file.read_text().splitlines()]
    return len(files), sum(1 for line in lines if line and not line.startswith("//"))


def cell(compiler, source, flags, includes, repeat):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cost.o"
        command = [compiler, "-std=c++20", "-O2", *flags, *includes, "-c", str(SOURCES / source), "-o", str(file)]
        runs = [compile_once(command, folder) for _ in range(repeat)]
        return f"{min(r[0] for r in runs):.1f} s, {max(r[1] for r in runs):.0f} MB, {code_kilobytes(file):.0f} KB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", nargs="+", default=[], help="folders of headers")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("compilers", nargs="+", metavar="COMPILER")
    options = parser.parse_args()
    includes = [word for folder in options.include for word in ("-isystem", os.path.abspath(folder))]
    compilers = [c for c in options.compilers if shutil.which(c)]
    for missing in sorted(set(options.compilers) - set(compilers)):
        print(f"passed over: no {missing}")
    if not compilers:
        sys.exit("no compiler to measure")
    names = [f"{pathlib.Path(c).name.removesuffix('-19').removesuffix('-14')} "
             + subprocess.run([c, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split()[0]
             for c in compilers]
    print(f"| -O2: CPU time, peak memory, code | {' | '.join(names)} |")
    print(f"| --- |{' --- |' * len(compilers)}")
    for text, source, flags in ROWS:
        cells = [cell(c, source, flags, includes, options.repeat) for c in compilers]
        print(f"| {text} | {' | '.join(cells)} |", flush=True)
    if options.include:
        files, lines = lines_of_code(options.include[0])
        print(f"\nThe headers: {files} files, {lines:,} lines of code.")


if __name__ == "__main__":
    main()
