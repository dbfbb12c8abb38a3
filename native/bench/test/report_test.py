"""That the report reads only results, merges rounds, compares as it says, and keeps what stands around its tables."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

REPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report")
sys.path.insert(0, REPORT)
sys.dont_write_bytecode = True

import baseline  # noqa: E402
import plots  # noqa: E402
import results  # noqa: E402
import tables  # noqa: E402

ABOUT = {"kind": "run", "machine": "a <machine>", "command": "bin/nvrar bench --some"}
MARKS = "<!-- {}results: written by bin/nvrar bench {}--document -->\n{}\n<!-- end of {}results -->\n"


def cell(library, size, *us, wrong=0, kind="collective", **shape):
    sizes = {"name": "all-reduce", "processes": 4, "backend": "cpu", "mode": "calls", "placement": "out", "type": "float32", "op": "sum",
             "root": -1, "algorithm": "auto", "bytes": size, "count": size // 4}
    us = sorted(us)
    return {"kind": kind, "library": library, "shape": {**sizes, **shape}, "unit": "us", "median": us[len(us) // 2], "least": us[0],
            "most": us[-1], "iterations": 40, "repeats": len(us), "wrong": wrong}


def on_gpus(library, size, *us, mode="graph", **shape):
    return cell(library, size, *us, **{"backend": "cuda", "mode": mode, "type": "bfloat16", "count": size // 2, **shape})


def group(library, us, device_bytes):
    return {"kind": "group", "library": library, "shape": {"name": "group", "processes": 4, "backend": "cuda"}, "unit": "us", "median": us,
            "least": us, "most": us, "device_bytes": device_bytes}


def step(library, all_reduce, batch, ms, context=1024, **more):
    shape = {"name": "decode", "ranks": 2, "batch": batch, "context": context, "all_reduce": all_reduce}
    return {"kind": "decode", "library": library, "shape": shape, "unit": "ms", "median": ms, "least": ms - 0.1, "most": ms + 0.2,
            "floor": 1.0, "without": None, "problem": "", **more}


DECODE = {**ABOUT, "machine": "NVIDIA H100", "decode": {
    "model": "random weights of 8b", "ranks": 2, "kernels": "fast", "weight_bytes": 16_000_000_000, "load_seconds": 8.0,
    "bandwidth": 3.1e12, "is_bandwidth_measured": True}}


def first_token(prefill, tokens, ms):
    return {"kind": "first-token", "library": "nvrar", "shape": {"prefill": prefill, "prompt_tokens": tokens}, "unit": "ms", "median": ms,
            "least": ms, "most": ms}


def run_of(*lines, about=ABOUT):
    return results.parse([json.dumps(line) for line in (about, *lines)])


def text_of(*lines, about=ABOUT, markdown=False):
    return "\n".join(tables.report(run_of(*lines, about=about), markdown))


CPU = (cell("c++", 1024, 10), cell("c++", 4096, 30), cell("java", 1024, 10.4), cell("java", 4096, 33), cell("open-mpi", 1024, 8),
       cell("open-mpi", 4096, 40))
GPU = (group("c++", 0.5e6, 104 << 20), on_gpus("c++", 1024, 2.9), on_gpus("c++", 4096, 3.5), on_gpus("study", 1024, 2.5),
       on_gpus("study", 4096, 3), on_gpus("java", 1024, 2.929), on_gpus("java", 4096, 3.675),
       on_gpus("nccl", 1024, 29, placement="in"), on_gpus("nccl", 4096, 7, placement="in"), on_gpus("c++", 1024, 4, mode="eager"),
       on_gpus("java", 1024, 6.75, mode="eager"))


class ReadTest(unittest.TestCase):
    def test_rounds_become_their_median_and_no_wrong_element_is_lost(self):
        (merged,) = run_of(cell("c++", 1024, 30), cell("c++", 1024, 10, wrong=7), cell("c++", 1024, 20)).cells
        self.assertEqual((merged.median, merged.least, merged.most, merged.wrong, merged.repeats), (20, 10, 30, 7, 3))
        self.assertAlmostEqual(merged.algbw, 1024 / 20 * 1e-3)

    def test_a_round_with_a_problem_is_not_lost(self):
        (merged,) = run_of(step("nvrar", "nvrar", 1, 3.0), step("nvrar", "nvrar", 1, 3.1, problem="they differ")).cells
        self.assertEqual(merged.more["problem"], "they differ")

    def test_bandwidths_have_the_factors_of_nccl_tests_and_a_time_of_zero_has_none(self):
        for name, factor in (("all-reduce", 1.5), ("all-gather", 0.75), ("all-to-all", 0.75), ("broadcast", 1)):
            (one,) = run_of(cell("c++", 1024, 5, name=name)).cells
            self.assertAlmostEqual(one.busbw, factor * 1024 / 5 * 1e-3)
        (none,) = run_of(cell("c++", 1024, 0)).cells
        self.assertEqual((none.algbw, none.busbw), (0, 0))

    def test_what_is_no_result_is_refused_in_a_sentence(self):
        result = CPU[0]
        for lines, reason in (
                ([], "its first line is not about a run"),
                (["no JSON"], "line 1 is no JSON"),
                (["[]"], "line 1 is no JSON object"),
                ([json.dumps(result)], "its first line is not about a run"),
                (['{"kind": "run", "machine": "x"}'], "the line of its run has no command"),
                ([ABOUT], "it has no results"),
                ([ABOUT, {"kind": "collective"}], "line 2 has no library"),
                ([ABOUT, {**result, "wrong": -1}], "line 2 has a time or a number that cannot be"),
                ([ABOUT, {**result, "median": "1"}], "line 2 has a time or a number that cannot be"),
                ([ABOUT, {**result, "shape": {}}], "line 2 has no name in its shape"),
                ([ABOUT, json.dumps(result).replace("10", "NaN")], "line 2 is no JSON"),
                ([ABOUT, step("nvrar", "nvrar", 8, 0) | {"least": 0}], "line 2 has a step without a time")):
            with self.subTest(reason), self.assertRaises(ValueError) as refused:
                results.parse([line if isinstance(line, str) else json.dumps(line) for line in lines])
            self.assertEqual(str(refused.exception), reason)

    def test_control_characters_do_not_reach_the_terminal(self):
        run = run_of(CPU[0], about={**ABOUT, "command": "\x1b[2Jbench"})
        self.assertEqual(run.about["command"], "?[2Jbench")


class TablesTest(unittest.TestCase):
    def test_cpu_is_in_the_columns_of_nccl_tests_with_a_ratio_to_open_mpi(self):
        text = text_of(*CPU)
        self.assertRegex(text, r"1024 +256 +float32 +sum +-1 +c\+\+ \| +10.00 .* 1.25\n")
        self.assertRegex(text, r"4096 +1024 +float32 +sum +-1 +java \| +33.00 .* 0.8[23]\n")
        self.assertIn("\nall-reduce, float32 sum, 4 processes\n", text)
        self.assertIn("4 processes on 2 hosts", text_of(cell("c++", 1024, 1, hosts=2)))

    def test_sentences_name_the_sizes_that_miss_a_target(self):
        text = text_of(*CPU)
        self.assertIn("C++ against Open MPI, 1 KiB to 1 MiB: 0.75 to 1.25 times its time; the target, at most 1.00, is missed at 1024 B "
                      "(1.25).\n", text)
        self.assertIn("all sizes: 0.75 to 1.25 times its time; the target, at most 1.50, is met at every size.\n", text)
        self.assertIn("From Java a call takes 0.40 us more than from C++ (median of the sizes up to 1 KiB); the target, at most 1.00 us, is "
                      "met at every size.", text)
        more = text_of(*(cell("c++", size, 5) for size in (512, 1024, 4096)), cell("java", 512, 6), cell("java", 1024, 7.25),
                       cell("java", 4096, 50))
        self.assertIn("takes 1.62 us more", more)
        self.assertIn("is missed at 1024 B (2.25).", more)

    def test_time_of_zero_has_no_ratio(self):
        zeros = (cell("c++", 1024, 0), cell("c++", 4096, 30), cell("open-mpi", 1024, 0), cell("open-mpi", 4096, 0))
        self.assertIn("| 1024 | 0.00 |  | 0.00 |  |  |", text_of(*zeros, markdown=True))
        self.assertNotIn("against", text_of(*zeros))
        gpu = text_of(on_gpus("c++", 1024, 0), on_gpus("c++", 8192, 4), on_gpus("nccl", 1024, 7), on_gpus("nccl", 8192, 8))
        self.assertIn("C++ against NCCL in a graph: 0.50 to 0.50 times", gpu)

    def test_gpus_have_a_table_for_each_mode_with_a_column_for_each_library(self):
        text = text_of(*GPU)
        self.assertRegex(text, r"4 ranks, graph\nsize \(B\) +c\+\+ us +study us +java us +nccl us .*\n +1024 +2.90 +2.50 +2.93 +29.00 ")
        self.assertIn("\nall-reduce, bfloat16 sum, 4 ranks, eager\n", text)
        self.assertIn("C++ against the baseline kernels, graph: 0.40 to 0.50 us behind; the target, at most 0.40 us or 10 %, is missed at "
                      "4096 B (0.50).\nFrom Java a call in a graph takes 1.0 to 5.0 % more than from C++; the target, at most 3 %, is "
                      "missed at 4096 B (5.00).\nFrom Java an eager call takes 2.75 to 2.75 us more than from C++; the target, at most "
                      "2.50 us, is missed at 1024 B (2.75).\nC++ against NCCL in a graph: 0.10 to 0.50 times its time; the target, at "
                      "most 1.00, is met at every size.\nA group of 4 from c++ is made in 0.50 s and takes 104.0 MiB of a GPU's memory.",
                      text)

    def test_fused_calls_are_compared_with_the_kernel_behind(self):
        fused = dict(kind="fused", name="fused-rms-norm-8192")
        text = text_of(*GPU, on_gpus("c++", 16384, 2.5, **fused), on_gpus("c++", 32768, 3, **fused),
                       on_gpus("c++-apart", 16384, 3.75, **fused), on_gpus("c++-apart", 32768, 2.9, **fused))
        self.assertIn("fused-rms-norm-8192, bfloat16 sum, 4 ranks, graph\nsize (B)    c++ us  c++-apart us", text)
        self.assertIn("saves -0.10 to 1.25 us of one with a kernel behind it; the target, at least 0.00 us, is missed at 32768 B (-0.10).",
                      text)

    def test_decode_steps_are_compared_with_those_beside_them(self):
        lines = (first_token("slices", 128, 12.3), step("nvrar", "nvrar", 8, 2, without=1.5), step("nvrar", "nccl", 8, 4),
                 step("PyTorch 2.9", "one-shot", 8, 5), step("PyTorch 2.9", "two-shot", 8, 1, problem="wrong, all"))
        text = text_of(*lines, about=DECODE)
        for sentence in (
                "random weights of 8b on 2 GPUs NVIDIA H100, by the fast kernels: 16.00 GB loaded in 8.0 s, 2.00 GB/s.\n",
                "3.10 TB/s, which the slowest GPU reads", "The first token of a prompt of 128 comes after 12.3 ms (prefill: slices).\n",
                "a step takes 0.50 of the same with NCCL's all-reduces.\n", "0.40 of the fastest of PyTorch 2.9, that with one-shot.\n"):
            self.assertIn(sentence, text)
        self.assertRegex(text, r" nvrar +nvrar +8 +1024 +2\.000 .* 50\.0 +1\.500 +25\.0 +ok")
        self.assertIn("| nvrar | nvrar | 8 | 1024 | 2.000 |", text_of(*lines, about=DECODE, markdown=True))
        self.assertEqual(tables.problem(run_of(*lines, about=DECODE)), "")

    def test_several_first_tokens_are_a_table(self):
        text = text_of(first_token("cuBLASLt 13.1.0", 512, 8.6), first_token("slices", 512, 44), about=DECODE)
        self.assertIn("\n   512  cuBLASLt 13.1.0                    8.6\n   512           slices                   44.0\n", text)

    def test_what_is_wrong_or_was_not_measured_is_the_problem(self):
        wrong = step("nvrar", "nccl", 8, 4, problem="they differ")
        self.assertEqual(tables.problem(run_of(wrong)), "At batch 8 and context 1024 with NCCL's all-reduces they differ.")
        failure = {"kind": "failure", "library": "PyTorch", "shape": {"batch": 8, "context": 1024}, "problem": "rank 1 was lost"}
        said = "At batch 8 and context 1024 PyTorch was not measured: rank 1 was lost."
        self.assertEqual(tables.problem(run_of(failure, about=DECODE)), said)
        self.assertIn(said, text_of(step("nvrar", "nvrar", 1, 2), failure, about=DECODE))
        self.assertIn("9 elements", tables.problem(run_of(cell("c++", 8, 1, wrong=9))))


class BaselineTest(unittest.TestCase):
    SIZES = [1024 << i for i in range(5)]

    def rows(self, library, *factors):
        """At five sizes, with batches that differ by 5 % to both sides."""
        return [cell(library, size, *(us * factor * part for part in (0.95, 1, 1.05)))
                for size, us, factor in zip(self.SIZES, range(1, 6), factors)]

    def slower(self, *lines):
        before = run_of(*(line for library in ("c++", "java", "open-mpi") for line in self.rows(library, 1, 1, 1, 1, 1)))
        return [said for series in baseline.compare("old.json", before, run_of(*lines)) if (said := series.slower(0.1))]

    def test_slower_in_the_median_is_said_of_ours_and_not_of_others(self):
        self.assertEqual(self.slower(*self.rows("c++", *[1.2] * 5)), ["c++, all-reduce, 4 ranks, by 1.20 in the median"])
        self.assertEqual(self.slower(*self.rows("open-mpi", *[1.2] * 5)), [])

    def test_noise_is_not_slower(self):
        self.assertEqual(self.slower(*self.rows("c++", 1.09, 0.9, 1.05, 1.08, 1.05)), [])

    def test_one_size_is_enough_if_even_its_fastest_batch_is_slower_than_the_slowest_before(self):
        self.assertEqual(self.slower(*self.rows("java", 1, 1, 1.2, 1, 1)), ["java, all-reduce, 4 ranks, at 4096 B (1.20)"])
        self.assertEqual(self.slower(cell("java", 4096, 3.0, 3.6, 3.9), self.rows("java", 1)[0]), [])

    def test_only_what_was_measured_in_the_same_way_is_compared(self):
        for other in (on_gpus("c++", 1024, 9), cell("c++", 512, 9), cell("c++", 1024, 0), cell("c++", 1024, 9, links=1)):
            with self.assertRaisesRegex(results.Problem, "has no result at the same size, type and number of ranks"):
                self.slower(other)

    def test_baseline_of_other_things_is_refused(self):
        before = run_of(*CPU)
        baseline.check("old.json", before, run_of(cell("c++", 8, 0)))
        for other in (cell("c++", 8, 0, processes=2), on_gpus("c++", 8, 0), cell("c++", 8, 0, name="broadcast")):
            with self.assertRaises(results.Problem) as refused:
                baseline.check("old.json", before, run_of(other))
            self.assertEqual(str(refused.exception), "the baseline old.json has nothing of what is measured here: it is of all-reduce, "
                             "float32 sum, 4 processes")

    def test_decode_steps_are_compared_by_batch(self):
        before = run_of(step("nvrar", "nvrar", 1, 2), step("nvrar", "nvrar", 8, 4), about=DECODE)
        now = run_of(step("nvrar", "nvrar", 1, 3), step("nvrar", "nvrar", 8, 4), about=DECODE)
        (series,) = baseline.compare("old.json", before, now)
        self.assertEqual(series.slower(0.1), "nvrar, nvrar, decode, 2 ranks, context 1024, by 1.25 in the median")


class PlotsTest(unittest.TestCase):
    def test_lines_ascend_and_a_band_reaches_from_the_fastest_to_the_slowest_batch(self):
        found = plots.plots_of(run_of(cell("c++", 4096, 20, 30, 40), cell("c++", 1024, 10), cell("c++", 512, 5, placement="in"),
                                      cell("java", 1024, 12), cell("open-mpi", 1024, 8), cell("open-mpi", 4096, 60)))
        self.assertEqual([plot.name for plot in found], [
            f"all-reduce-float32-sum-4-processes-{what}" for what in ("time", "bus-bandwidth", "speed-up")])
        time, bandwidth, speed_up = found
        # Java was measured at one size, which is no line.
        self.assertEqual([line.name for line in time.lines], ["c++", "open-mpi"])
        self.assertEqual(time.lines[0].points, [(1024, 10, 10, 10), (4096, 30, 20, 40)])
        for value, us in zip(bandwidth.lines[0].points[1][1:], (30, 40, 20)):
            self.assertAlmostEqual(value, 1.5 * 4096 / us * 1e-3)
        self.assertEqual(speed_up.title, "all-reduce, float32 sum, 4 processes: speed-up over open-mpi")
        self.assertEqual([line.points for line in speed_up.lines], [[(1024, 0.8, 0.8, 0.8), (4096, 2, 1.5, 3)]])

    def test_each_mode_has_its_pictures_and_the_fastest_peer_of_each_size_counts(self):
        found = plots.plots_of(run_of(
            on_gpus("c++", 1024, 2), on_gpus("c++", 4096, 4), on_gpus("study", 1024, 1), on_gpus("study", 4096, 1),
            on_gpus("nccl", 1024, 8, placement="in"), on_gpus("nccl", 4096, 6, placement="in"), on_gpus("torch-two-shot", 1024, 5),
            on_gpus("torch-two-shot", 4096, 9), on_gpus("torch-one-shot", 1024, 0), on_gpus("c++", 1024, 3, mode="eager"),
            on_gpus("c++", 4096, 3.5, mode="eager")))
        self.assertEqual(len(found), 5)
        self.assertEqual(found[2].title, "all-reduce, bfloat16 sum, 4 ranks, graph: speed-up over the fastest of torch-two-shot, nccl")
        self.assertEqual([(line.name, [point[1] for point in line.points]) for line in found[2].lines], [("c++", [2.5, 1.5])])

    def test_times_of_zero_have_no_place_on_logarithmic_axes(self):
        found = plots.plots_of(run_of(*(on_gpus("c++", size, us, mode="graph-cold") for size, us in ((512, 0), (1024, 1), (2048, 2)))))
        self.assertEqual([[point[0] for point in plot.lines[0].points] for plot in found], [[1024, 2048]] * 2)

    def test_each_context_with_two_batches_has_a_picture_of_its_steps(self):
        (plot,) = plots.plots_of(run_of(
            step("nvrar", "nvrar", 8, 4), step("nvrar", "nvrar", 1, 3), step("nvrar", "nccl", 1, 5), step("nvrar", "nccl", 8, 6),
            step("PyTorch 2", "two-shot", 1, 7), step("PyTorch 2", "two-shot", 8, 8), step("PyTorch 2", "nccl", 1, 9),
            step("nvrar", "nvrar", 1, 3, context=8192), about=DECODE))
        self.assertEqual(plot.name, "decode-2-ranks-context-1024")
        self.assertEqual([line.name for line in plot.lines], ["nvrar", "the same with NCCL", "PyTorch, two-shot", "floor"])
        self.assertEqual(plot.lines[0].points, [(1, 3, 2.9, 3.2), (8, 4, 3.9, 4.2)])


class ProgramTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name, text=None):
        path = os.path.join(self.directory, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def lines(self, name, *lines, about=ABOUT):
        return self.path(name, "".join(json.dumps(line) + "\n" for line in (about, *lines)))

    def report(self, *arguments, given=""):
        return subprocess.run([sys.executable, "-B", REPORT, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)

    def assert_refused(self, said, *arguments, given=""):
        ended = self.report(*arguments, given=given)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (1, "", said + "\n"))

    def test_run_that_is_slower_than_its_baseline_has_an_exit_code_of_its_own(self):
        before, slower = self.lines("before", *CPU), self.lines("slower", *(cell(line["library"], line["shape"]["bytes"], line["median"] * (
            1 if line["library"] == "open-mpi" else 1.2)) for line in CPU))
        ended = self.report("--baseline", before, slower)
        self.assertEqual((ended.returncode, ended.stderr), (
            4, "slower than the baseline by more than 0.1: c++, all-reduce, 4 ranks, by 1.20 in the median; java, all-reduce, 4 ranks, by "
            "1.20 in the median\n"))
        self.assertRegex(ended.stdout, "median +1.20 +1.20 +1.00\n")
        ended = self.report("--baseline", before, "--slower", "0.3", slower)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_other_machine_of_a_baseline_and_wrong_elements_are_said(self):
        ended = self.report("--baseline", self.lines("before", *CPU, about={**ABOUT, "machine": "another"}), self.lines("now", *CPU))
        self.assertEqual((ended.returncode, ended.stderr), (0, "the baseline was measured on another\n"))
        ended = self.report(self.lines("wrong", cell("c++", 1024, 1, wrong=2)))
        self.assertEqual((ended.returncode, ended.stderr), (3, "2 elements of the results were wrong; the column #wrong says where\n"))

    def test_files_have_all_results(self):
        table, lines = self.path("csv"), self.path("json")
        given = "".join(json.dumps(line) + "\n" for line in (ABOUT, *GPU, on_gpus("c++", 1024, 3.1)))
        self.assertEqual(self.report("--csv", table, "--json", lines, "-", given=given).returncode, 0)
        with open(table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(GPU))
        self.assertEqual(",".join(rows[1].values()), "c++,all-reduce,4,1024,512,bfloat16,sum,-1,auto,out,3.0000,0.3413,0.5120,0,2.9000,"
                         "3.1000,40,2,cuda,graph,1")
        self.assertEqual(",".join(rows[0].values()), f"c++,group,4,{104 << 20},0,none,none,-1,none,out,500000.0000,0.0000,0.0000,0,"
                         "500000.0000,500000.0000,1,1,cuda,create,1")
        with open(lines, encoding="utf-8") as file:
            kept = [json.loads(line) for line in file]
        self.assertEqual(kept[1:], [json.loads(line) for line in given.splitlines()[1:]])
        self.assertEqual(kept[0], {**ABOUT, "commit": kept[0]["commit"]})

    def test_page_keeps_what_stands_around_the_tables(self):
        cpu, gpu = MARKS.format("", "", "old", ""), MARKS.format("gpu ", "--backend cuda ", "old", "gpu ")
        page = self.path("page.md", f"# Title\n\n{cpu}\n{gpu}\nrest\n")
        for lines in (CPU, GPU):
            for _ in range(2):
                self.assertEqual(self.report("--document", page, self.lines("run", *lines)).returncode, 0)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("# Title\n\n<!-- results") and text.endswith("end of gpu results -->\n\nrest\n"), text)
        self.assertNotIn("old", text)
        self.assertEqual(text.count("| 1024 | 10.00 | 10.40 | 8.00 | 1.25 | 0.40 |"), 1)
        self.assertEqual(text.count("| 1024 | 2.90 | 2.50 | 2.93 | 29.00 |"), 1)

    def test_places_and_a_baseline_are_checked_before_a_measurement(self):
        planned = "".join(json.dumps(line) + "\n" for line in (ABOUT, cell("c++", 8, 0)))
        absent, file = os.path.join(self.directory, "absent"), self.path("file", "# Page\n")
        for option in ("--csv", "--json"):
            self.assert_refused(f"{option}: there is no directory {absent}", "--check", option, absent + "/x", "-", given=planned)
            self.assert_refused(f"{option}: {self.directory} is a directory", "--check", option, self.directory, "-", given=planned)
        self.assert_refused(f"--plots: {file} is not a directory", "--check", "--plots", file + "/below", "-", given=planned)
        ended = self.report("--check", "--document", file, "-", given=planned)
        self.assertIn("has no place for the results", ended.stderr)
        self.assert_refused("there is no file /nowhere.json", "--check", "--baseline", "/nowhere.json", "-", given=planned)
        ended = self.report("--check", "--json", self.path("new"), "--plots", absent, "-", given=planned)
        self.assertFalse(os.path.exists(self.path("new")) or os.path.exists(absent))

    def test_what_was_measured_is_kept_though_a_file_has_gone_meanwhile(self):
        lines = "".join(json.dumps(line) + "\n" for line in (ABOUT, *CPU))
        for option in (["--document", self.path("page", "# No marks")], ["--baseline", "/nowhere.jsonl"]):
            with self.subTest(option[0]):
                kept = self.path("kept" + option[0])
                ended = self.report("--json", kept, *option, "-", given=lines)
                self.assertEqual(ended.returncode, 1)
                self.assertIn("all-reduce, float32 sum, 4 processes", ended.stdout)
                self.assertEqual(len(results.read(kept).cells), len(CPU))
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith("tmp")], [])

    def test_pictures_and_a_page_that_needs_no_other_file(self):
        directory = self.path("new/plots")
        ended = self.report("--plots", directory, self.lines("run", *CPU))
        if "cannot draw" in ended.stderr and not os.environ.get("NVRAR_TEST_PLOTS"):
            self.assertEqual(ended.returncode, 1)
            self.assertFalse(os.path.exists(directory))
            self.skipTest(ended.stderr.strip())
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        names = [f"all-reduce-float32-sum-4-processes-{what}.{kind}" for what in ("bus-bandwidth", "speed-up", "time") for kind in ("png", "svg")]
        self.assertEqual(sorted(os.listdir(directory)), [*names, "index.html"])
        with open(os.path.join(directory, "index.html"), encoding="utf-8") as file:
            page = file.read()
        for part in ("a &lt;machine&gt;", "bin/nvrar bench --some", "algbw"):
            self.assertIn(part, page)
        self.assertEqual(page.count('src="data:image/svg+xml;base64,'), 3)
        self.assertNotIn("http", page)
        with open(os.path.join(directory, names[0]), "rb") as file:
            self.assertTrue(file.read().startswith(b"\x89PNG"))


if __name__ == "__main__":
    unittest.main()
