"""Tests of plot.py over small made-up results: python3 plot_test.py. Says SKIPPED where there is no matplotlib."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

try:
    import matplotlib  # noqa: F401
except ImportError:
    print(f"SKIPPED: {sys.executable} has no matplotlib, install python3-matplotlib")
    sys.exit(0)

import plot

HEADS = "/heads:32/kv_heads:8/head_dim:128"


def runs(name, flops, data_bytes=1e9, tokens=1e3, times=(1.0, 1.01, 0.99), **more):
    """Repetitions whose median is the given numbers; the mean is another."""
    return [{"name": f"{name}/repeats:3", "run_name": name, "run_type": "iteration", "cpu_time": time, "flops": flops * share,
             "bytes": data_bytes, "tokens": tokens, **more} for time, share in zip(times, (1.0, 1.3, 0.9))]


def bench(benchmarks):
    return {"context": {"date": "2026-01-02T03:04:05", "host_name": "secret-host", "instruction set": "avx512"},
            "benchmarks": benchmarks}


def report(lines=(("limit_fma", 100, "GFLOP/s"), ("limit_stream", 10, "GB/s"))):
    return {"processor": "A CPU", "instruction_set": "avx512",
            "lines": [{"name": name, "ratio": ratio, "unit": unit, "status": "unstable" if name == "limit_stream" else "ok",
                       "spread": 0.2} for name, ratio, unit in lines]}


def everything():
    found = []
    for q_len, flops in ((2048, 80e9), (128, 50e9), (512, 70e9)):  # out of order, as interleaved runs are
        found += runs(f"Prefill<float, Tiled, avx512>{HEADS}/q_len:{q_len}", flops)
        found += runs(f"Prefill<float, Eigen>{HEADS}/q_len:{q_len}", flops / 4)
    for kv_len in (2048, 128):
        found += runs(f"Decode<float, Tiled, avx512>{HEADS}/kv_len:{kv_len}", 4e9, tokens=1e6 / kv_len)
    found += runs(f"Prefill<float, Specification>{HEADS}/q_len:128", 1e9)
    found += runs(f"Prefill<float, Tiled, avx512>{HEADS}/q_len:999/executor:hook/threads:2", 99e9)
    found += runs(f"Policy<float, Tiled, SoftCap>{HEADS}/q_len:512/past:0", 1, time_over_none=1.25)
    found += runs(f"Policy<float, Tiled, Causal & KeyPadding>{HEADS}/q_len:512/past:0/padding:holes", 1, time_over_none=1.5)
    return found


class PlotTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, *contents):
        files = []
        for i, content in enumerate(contents):
            files.append(self.folder / f"{i}.json")
            files[-1].write_text(json.dumps(content))
        return [str(file) for file in files]

    def run_plot(self, *contents):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = plot.main([*self.write(*contents), "--svg", str(self.folder / "out"), "--png",
                              str(self.folder / "out"), "--build", "g++ 12, -O3",
                              "--commit", "abc123"])
        return code, said.getvalue()

    def test_sorts_by_argument_and_takes_medians_of_one_thread(self):
        results = plot.Results(self.write(bench(everything())))
        found = results.of("Prefill", "Tiled, avx512", "q_len")
        self.assertEqual([(p["q_len"], p.counters["flops"]) for p in found], [(128, 50e9), (512, 70e9), (2048, 80e9)])

    def test_draws_all_pictures_with_their_caption_and_without_the_host(self):
        code, said = self.run_plot(bench(everything()), report())
        self.assertEqual(code, 0, said)
        for picture in ("prefill", "decode", "roofline", "kernels", "policies"):
            svg = (self.folder / "out" / f"{picture}.svg").read_text()
            for words in ("A CPU", "g++ 12, -O3", "abc123", "2026-01-02"):
                self.assertIn(words, svg)
            self.assertNotIn("secret-host", svg)
            self.assertTrue((self.folder / "out" / f"{picture}.png").stat().st_size > 5000)
        policies = (self.folder / "out" / "policies.svg").read_text()
        self.assertIn("SoftCap", policies)
        self.assertIn("KeyPadding, holes", policies)

    def test_the_same_numbers_give_the_same_bytes(self):
        self.run_plot(bench(everything()), report())
        first = (self.folder / "out" / "prefill.svg").read_bytes()
        self.run_plot(bench(list(reversed(everything()))), report())
        self.assertEqual(first, (self.folder / "out" / "prefill.svg").read_bytes())

    def test_top_of_the_axis_is_the_measured_peak(self):
        import matplotlib.pyplot as pyplot
        figure, axes = pyplot.subplots()
        plot.prefill(plot.Results(self.write(bench(everything()), report())), axes)
        self.assertEqual(axes.get_ylim(), (0, 100))
        pyplot.close(figure)

    def test_says_what_varies(self):
        code, said = self.run_plot(bench(everything() + runs(f"Chunk<float, Tiled, avx512>{HEADS}/q_len:256/past:768", 1e9,
                                                             times=(1.0, 1.5, 1.0))), report())
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"varies by 24\.7 %: Chunk")
        self.assertIn("limit_stream is unstable, its spread 20.0 %", said)
        self.assertNotIn("limit_fma", said)

    def test_says_what_is_missing(self):
        code, said = self.run_plot(bench(everything()))
        self.assertEqual(code, 1)
        self.assertIn("prefill: not drawn, no limit_fma: give the JSON of lockstep_report", said)
        self.assertIn("2 of 5 pictures", said)

    def test_says_which_file_cannot_be_read(self):
        for content, words in (('{"benchmarks": [', "0.json is no JSON, or not all of it"), (None, "0.json")):
            file = self.folder / "0.json"
            file.unlink(missing_ok=True)
            if content is not None:
                file.write_text(content)
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(plot.main([str(file), "--svg", str(self.folder), "--png", str(self.folder)]), 2)
            self.assertIn(words, said.getvalue())


if __name__ == "__main__":
    unittest.main()
