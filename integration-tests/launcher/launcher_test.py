"""Tests bin/nvrar as its user meets it: exit codes, what it prints, how soon, and what it leaves behind when anything of it is killed.

    python3 launcher_test.py [RESULT.xml [TEST | -TEST]...]

The checkout must be built (bin/nvrar setup). Other Ray clusters may run on the machine: what a launcher left behind is found by
descent, because this process is the reaper of all its orphaned descendants (prctl), and by the names that its processes had in use.
"""

import contextlib
import csv
import ctypes
import errno
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
import unittest.mock as mock
import xml.etree.ElementTree as ElementTree

from builds_test import BuildsTest
from hostile_test import HostileTest
from support import CACHE, COMMAND_S, GONE_S, HOME, LONG_DECODE, Launcher, LauncherTestCase, command_line, descendants, listening, read
from training_test import TrainingTest

sys.path.insert(0, os.path.join(HOME, "bin/lib"))
import keeper  # noqa: E402

# From the start of bin/nvrar to the first character of text, with everything installed and built, on two cores.
FIRST_OUTPUT_S = 25 if os.environ.get("CI") == "true" else 60
PR_SET_CHILD_SUBREAPER = 36
NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# 127.0.0.1, the same as an IPv6 address, and ::1.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


class LauncherTest(LauncherTestCase):
    def test_01_jvm_options_are_the_same_wherever_they_stand(self):
        def flags(path, pattern):
            return sorted(set(re.findall(pattern, read(os.path.join(HOME, path)))))

        modules = r"--(?:add-opens|enable-native-access)=[\w./=-]+"
        want = flags("pom.xml", modules)
        self.assertEqual(len(want), 7)
        ours = "ray-plugin/src/main/java/io/nvrar/ray/ActorJvm.java"
        for path in ("bin/lib/run.sh", ours, "integration-tests/src/test/java/io/nvrar/it/cluster/RayCluster.java", "docs/reference/configuration.md"):
            self.assertEqual(flags(path, modules), want, f"{path} and pom.xml")
        for path in ("pom.xml", "bin/lib/run.sh", ours):
            self.assertEqual(flags(path, r"-Dkryo[\w.=]+"), ["-Dkryo.unsafe=false"], path)

    def test_02_an_unknown_command_or_option_is_wrong_usage(self):
        for arguments in (["encode"], ["test", "--fast"], ["test", "--full", "--all"], ["setup", "--fast"]):
            with self.subTest(arguments), Launcher(*arguments) as launcher:
                self.assert_ends(launcher, 2)
                self.assertEqual(len(launcher.messages()), 1)
                self.assertEqual(launcher.text(launcher.out), "")

    def test_03_every_command_explains_itself(self):
        for arguments in (["help"], *([name, "--help"] for name in ("test", "setup", "doctor", "decode", "hello", "hello-processes", "graph", "hosts", "bench"))):
            with self.subTest(arguments), Launcher(*arguments) as launcher:
                self.assert_ends(launcher, 0)
                self.assertIn(arguments[0] if len(arguments) > 1 else "COMMAND", launcher.text(launcher.out))
                self.assertEqual(launcher.messages(), [])

    def test_04_doctor_finds_nothing_missing_where_the_others_run(self):
        with Launcher("doctor") as launcher:
            self.assert_ends(launcher, 0)
            self.assertNotIn("missing ", launcher.text(launcher.out))
            self.assertRegex(launcher.text(launcher.out), r"\nsummary  fit for groups on CPUs; GPUs: [^\n]+\n\Z")

    def test_05_processes_say_hello_without_ray(self):
        with Launcher("hello-processes") as launcher:
            self.assert_ends(launcher, 0)
            self.assertNotEqual(launcher.text(launcher.out), "")

    def test_06_actors_say_hello(self):
        with Launcher("hello") as launcher:
            self.assert_ends(launcher, 0)
            self.assertNotEqual(launcher.text(launcher.out), "")

    def test_06_the_machines_gpus_are_offered_but_where_the_user_wants_the_cpu(self):
        with tempfile.TemporaryDirectory() as directory:
            tool = os.path.join(directory, "nvidia-smi")
            with open(tool, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho 'GPU 0: One and only (UUID: GPU-0)'\n")
            os.chmod(tool, 0o755)
            environment = {"PATH": f"{directory}:{os.environ['PATH']}"}
            with Launcher("hello", "--ranks", "2", environment=environment) as launcher:
                self.assert_ends(launcher, 1)
                self.assertIn("the cluster has 1 GPU on ", launcher.messages()[0])
            with Launcher("hello", "--ranks", "2", "--backend", "CPU", environment=environment) as launcher:
                self.assert_ends(launcher, 0)
                self.assertIn("rank 1 of 2 on host (CPU)", launcher.text(launcher.out))

    def test_06_workers_take_their_classes_from_an_archive_that_an_earlier_command_has_made(self):
        archives = os.path.join(CACHE, "ray-*/workers-*.jsa")
        for archive in glob.glob(archives):
            os.remove(archive)
        plain = {variable: "" for variable in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")}
        with Launcher("hello", "--backend", "cpu", environment=plain) as launcher:
            self.assert_ends(launcher, 0)
        [archive] = glob.glob(archives)
        self.assertEqual(glob.glob(os.path.join(CACHE, "ray-*/workers-*.jsa.*")), [])
        with Launcher(*LONG_DECODE, "--backend", "cpu", environment=plain) as launcher:
            launcher.await_output()
            maps = [read(f"/proc/{pid}/maps") for pid in descendants()]
            launcher.process.terminate()
            launcher.process.wait(COMMAND_S)
        self.assertEqual(len([text for text in maps if f" {archive}\n" in text]), 4)

    def test_07_a_warm_start_is_soon_at_the_first_text(self):
        # Where others use the machine, too, one start may be slow.
        if self.warm_start() > FIRST_OUTPUT_S:
            self.assertLessEqual(self.warm_start(), FIRST_OUTPUT_S, "and the start before this one took longer, too")

    def warm_start(self):
        """Seconds to the first text."""
        with Launcher("decode", "--max-tokens", "8") as launcher:
            seconds = launcher.await_output()
            print(f"first output after {seconds:.1f} s (at most {FIRST_OUTPUT_S} s)")
            launcher.note_paths()
            self.assert_ends(launcher, 0)
            self.assertRegex(launcher.text(launcher.out), r"\w+ \w+")
            self.assertEqual(launcher.messages(), [])
            if not keeper.visible_gpus():
                self.assertIn("Decodes on CPUs: no node of the cluster has a GPU.", launcher.text(launcher.err))
            return seconds

    def test_08_ranks_that_do_not_divide_the_heads_are_one_sentence(self):
        with Launcher("decode", "--ranks", "3") as launcher:
            self.assert_ends(launcher, 1)
            self.assertEqual(len(launcher.messages()), 1, launcher.text(launcher.err))
            self.assertEqual(launcher.text(launcher.out), "")

    def test_08_wrong_options_are_refused_before_a_cluster_starts(self):
        wrong = {
            ("decode", "--tokens", "5"): "--tokens", ("decode", "--ranks", "9"): "9 ranks", ("decode", "--model", "/nonexistent"): "/nonexistent",
            ("hello", "--tokens", "5"): "--tokens", ("hello", "--ranks", "9"): "--ranks is 9, must be 1 to 8",
            ("graph", "--hidden", "7"): "--hidden is 7",
            ("decode-bench", "--tokens", "5"): "--tokens"}
        for arguments, told in wrong.items():
            with self.subTest(arguments), Launcher(*arguments) as launcher:
                self.assertIn(launcher.exit_code(), (1, 2))
                launcher.await_nothing_left()
                self.assertIn(told, launcher.messages()[0])
                self.assertNotIn("starting a Ray cluster", launcher.text(launcher.err))
                self.assertEqual(launcher.text(launcher.out), "")

    def test_08_an_address_that_nothing_answers_at_is_one_sentence_within_seconds(self):
        for command in ("hello", "decode"):
            with self.subTest(command), Launcher(command, "--address", "127.0.0.1:1") as launcher:
                self.assert_ends(launcher, 1)
                self.assertEqual(
                    launcher.text(launcher.err),
                    "nvrar: nothing answers at 127.0.0.1:1, where a Ray cluster was to be: Connection refused\n")

    def test_08_a_start_of_a_cluster_is_said_on_standard_error(self):
        with Launcher("hello", "--ranks", "1") as launcher:
            self.assert_ends(launcher, 0)
            self.assertIn("nvrar: starting a Ray cluster ...\n", launcher.text(launcher.err))
            self.assertRegex(launcher.text(launcher.out), r"\Arank 0 of 1 ")

    def end_while_decoding(self, victim, number, code):
        with Launcher(*LONG_DECODE) as launcher:
            launcher.await_output()
            # Else the decode may be over before it is disturbed, where other tests want the processors too.
            driver = launcher.driver()
            os.kill(driver, signal.SIGSTOP)
            launcher.note_paths()
            pid = victim(launcher)
            self.assertIsNone(launcher.process.poll(), "the decode was over before it could be disturbed")
            os.kill(pid, number)
            begin = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(driver, signal.SIGCONT)
            self.assertEqual(launcher.exit_code(GONE_S), code, launcher.text(launcher.err))
            ended = time.monotonic() - begin
            launcher.await_nothing_left()
            print(f"ended after {ended:.1f} s, nothing left after {time.monotonic() - begin:.1f} s")
            return launcher.messages()

    def test_09_a_killed_driver_leaves_nothing(self):
        messages = self.end_while_decoding(Launcher.driver, signal.SIGKILL, 128 + signal.SIGKILL)
        self.assertEqual(messages, ["nvrar: the driver was killed"])

    def test_10_a_killed_actor_is_one_sentence_and_leaves_nothing(self):
        messages = self.end_while_decoding(Launcher.actor, signal.SIGKILL, 1)
        self.assertEqual(len(messages), 1, messages)

    def test_11_a_killed_launcher_leaves_nothing(self):
        self.end_while_decoding(lambda launcher: launcher.process.pid, signal.SIGKILL, -signal.SIGKILL)

    def test_12_an_interrupted_launcher_leaves_nothing(self):
        self.end_while_decoding(lambda launcher: launcher.process.pid, signal.SIGINT, 128 + signal.SIGINT)

    def test_13_a_command_listens_to_this_machine_only_and_leaves_nothing_when_terminated(self):
        def look(launcher):
            listeners = {pid: addresses for pid in descendants() if (addresses := listening(pid))}
            # The GCS, the raylet, the driver, four actors, of which rank 0 has the rendezvous too.
            self.assertGreaterEqual(len(listeners), 7, listeners)
            open_to_all = {(command_line(pid)[0], *addresses - LOOPBACK) for pid, addresses in listeners.items() if addresses - LOOPBACK}
            self.assertEqual(open_to_all, set())
            return launcher.process.pid

        self.end_while_decoding(look, signal.SIGTERM, 128 + signal.SIGTERM)

    def test_14_bench_measures_c_and_java_in_one_run_and_finds_nothing_wrong(self):
        with tempfile.TemporaryDirectory() as directory:
            table, document = (os.path.join(directory, name) for name in ("results.csv", "results.json"))
            with Launcher(
                    "bench", "--compare", "c++,java", "--processes", "2", "--rounds", "1", "--repeats", "2", "--iters", "5",
                    "--warmup", "0", "--max", "128K", "--factor", "128", "--csv", table, "--json", document) as launcher:
                self.assert_ends(launcher, 0)
                self.assertIn("From Java a call takes", launcher.text(launcher.out))
            with open(table, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            with open(document, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
            self.assertEqual([line["kind"] for line in lines], ["run"] + ["collective"] * len(rows))
        measured = sorted((row["implementation"], int(row["bytes"]), row["placement"]) for row in rows)
        wanted = [(name, size, place) for name in ("c++", "java") for size in (8, 1024, 131072) for place in ("in", "out")]
        self.assertEqual(measured, sorted(wanted))
        self.assertEqual({row["wrong"] for row in rows}, {"0"})

    def test_15_bench_refuses_wrong_options_in_a_sentence(self):
        with Launcher("bench", "--op", "avg", "--type", "int8") as launcher:
            self.assert_ends(launcher, 2)
            self.assertEqual(launcher.messages()[0], "nvrar: --op avg is for floating types, --type is int8")

    def keeper_ends(self, name, *options, logs=False, told=""):
        """Has a keeper without a launcher clean up; returns whether it kept logs under that name, and what it said."""
        with tempfile.TemporaryDirectory() as parent:
            directory, kept = os.path.join(parent, "cluster"), os.path.join(parent, name)
            os.makedirs(os.path.join(directory, "session_latest/logs") if logs else directory)
            with open(os.path.join(parent, "file"), "w", encoding="utf-8"):
                pass
            keeper = subprocess.run(
                [sys.executable, os.path.join(HOME, "bin/lib/keeper.py"), "--directory", directory, "--keep-logs", kept, *options],
                input=told, capture_output=True, text=True, timeout=COMMAND_S, check=False)
            self.assertEqual(keeper.returncode, 0, keeper.stderr)
            self.assertFalse(os.path.exists(directory))
            return os.path.isdir(kept), keeper.stderr

    def test_16_a_keeper_cleans_up_also_where_there_are_no_logs_to_keep(self):
        self.assertEqual(self.keeper_ends("kept", logs=True), (True, ""))
        self.assertEqual(self.keeper_ends("kept", "--only-failures", logs=True), (False, ""))
        self.assertEqual(self.keeper_ends("kept", "--only-failures", logs=True, told="ended\n"), (True, ""))
        self.assertEqual(self.keeper_ends("kept"), (False, ""))
        self.assertFalse(self.keeper_ends("kept", "--ray", "/bin/false")[0])
        kept, said = self.keeper_ends("file/kept", logs=True)
        self.assertFalse(kept)
        self.assertRegex(said, r"\Anvrar: not all of the cluster's logs could be copied to \S+/file/kept: .*\n\Z")

    def test_16_a_vital_process_that_is_gone_before_it_is_watched_has_ended(self):
        cluster = keeper.Cluster.__new__(keeper.Cluster)
        cluster.vital = {}
        # Which of the two depends on the kernel, and on how far it has gone.
        gone = {errno.ESRCH: "raylet", errno.EINVAL: "gcs_server", errno.EPERM: None, errno.EMFILE: None}
        with subprocess.Popen(["sleep", "60"]) as cluster.process:
            try:
                for code, name in gone.items():
                    cluster.gone = None
                    with mock.patch.multiple(
                            keeper, descendants=lambda: [1], program=lambda pid, name=name: name or "raylet"), mock.patch.object(
                            os, "pidfd_open", side_effect=OSError(code, os.strerror(code))):
                        cluster.watch()
                    self.assertEqual(cluster.lost(), name and f"its {name} has ended")
            finally:
                cluster.process.kill()

    def test_17_half_a_cuda_tool_chain_is_none_and_an_old_one_is_named(self):
        def fake(nvcc, release):
            os.makedirs(os.path.dirname(nvcc))
            with open(nvcc, "w", encoding="utf-8") as script:
                script.write(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
            os.chmod(nvcc, 0o755)
            return nvcc

        with tempfile.TemporaryDirectory() as parent:
            # A PATH where no nvcc of this machine is.
            tools = os.path.join(parent, "tools")
            os.mkdir(tools)
            for tool in ("bash", "dirname", "head", "readlink", "sed", "sha256sum", "sort"):
                os.symlink(shutil.which(tool), os.path.join(tools, tool))
            old = os.path.join(parent, "old")
            environment = {"PATH": tools, "XDG_CACHE_HOME": os.path.join(parent, "cache"), "CUDA_HOME": old}

            def find(*arguments):
                done = subprocess.run(
                    [os.path.join(HOME, "native/cmake/find-nvcc"), *arguments], capture_output=True, text=True, env=environment,
                    timeout=COMMAND_S, check=False)
                return done.returncode, (done.stdout + done.stderr).strip()

            too_old = fake(os.path.join(old, "bin/nvcc"), "12.4")
            installed = find("--installed")[1]
            ours = fake(os.path.join(installed, "toolkit/bin/nvcc"), "13.0")
            self.assertEqual(find(), (
                1, f"no nvcc: {too_old} is of CUDA 12.4 and 12.8 or newer is needed, {installed} is not there, there is no nvcc on the PATH"))
            with open(os.path.join(installed, ".complete"), "w", encoding="utf-8"):
                pass
            self.assertEqual(find(), (0, ours))
            environment["CUDA_HOME"] = os.path.join(parent, "new")
            new = fake(os.path.join(parent, "new/bin/nvcc"), "12.8")
            self.assertEqual(find(), (0, new))
            self.assertEqual(find(ours), (0, ours))
            self.assertEqual(find(too_old)[0], 1)

    def test_18_the_table_of_the_tests_says_what_failed_and_how(self):
        def case(name, message, output):
            return (f'<testcase name="{name}" classname="{name}" status="fail"><failure message="{message}"/>'
                    f"<system-out>{output}</system-out></testcase>")

        broken = "a_test.cpp:7: Failure\n  1 is not 2\n[  FAILED  ] Sums.AreExact (3 ms)\n"
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "ctest.xml"), "w", encoding="utf-8") as file:
                file.write(f"<testsuite>{case('sums_test', '', broken)}"
                           f"{case('control', 'Required regular expression not found', broken)}</testsuite>")
            with open(os.path.join(directory, "cut.xml"), "w", encoding="utf-8") as file:
                file.write("<testsuite><testcase")
            done = subprocess.run(
                [sys.executable, "-I", os.path.join(HOME, "bin/lib/results.py")], input=f"native\t8\t3\t{directory}\t\n",
                capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("failed   native: sums_test.sums_test: Sums.AreExact\n    a_test.cpp:7: Failure\n", done.stdout)
        self.assertIn("failed   native: control.control: Required regular expression not found\n", done.stdout)
        self.assertIn("failed   native: cut.xml: not readable: ", done.stdout)
        self.assertIn("0 passed, 3 failed, 0 skipped", done.stdout)

    def test_18_a_cuda_tool_chain_that_cannot_be_had_is_one_sentence_and_leaves_none(self):
        with tempfile.TemporaryDirectory() as parent:
            empty = os.path.join(parent, "nvrar")
            os.mkdir(empty, 0o700)
            for ray in glob.glob(os.path.join(CACHE, "ray-*")):
                os.symlink(ray, os.path.join(empty, os.path.basename(ray)))
            # Nothing listens there.
            nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": os.devnull, "no_proxy": "*"}
            with Launcher("setup", "--cuda", environment={"XDG_CACHE_HOME": parent, **nowhere}) as launcher:
                self.assert_ends(launcher, 1)
                self.assertEqual(len(launcher.messages()), 1, launcher.text(launcher.err))
                self.assertIn("pip does not reach its package index", launcher.messages()[0])
            self.assertEqual([path for path in glob.glob(os.path.join(empty, "cuda-*")) if os.path.isdir(path)], [])


class Result(unittest.TextTestResult):
    """Also as JUnit XML, with the seconds of each test."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.suite = ElementTree.Element("testsuite", name="launcher")

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()
        name = test.id().rpartition(".")[2]
        self.case = ElementTree.SubElement(self.suite, "testcase", classname="launcher", name=name)

    def stopTest(self, test):
        seconds = time.monotonic() - self.begin
        self.case.set("time", f"{seconds:.3f}")
        print(f"{seconds:6.1f} s  {self.case.get('name')}", flush=True)
        super().stopTest(test)

    def add_bad(self, error):
        message, text = (NOT_IN_XML.sub("?", one) for one in (str(error[1]), "".join(traceback.format_exception(*error))))
        ElementTree.SubElement(self.case, "failure", message=message).text = text

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.add_bad(err)

    def addError(self, test, err):
        super().addError(test, err)
        self.add_bad(err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.add_bad(err)


def main():
    result_file, names = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else (None, [])
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # A shell starts background jobs with SIGINT ignored, and no script below could undo that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # bin/nvrar test ends this so: what was started here is to be ended, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{name}*" for name in names if not name.startswith("-")] or None
    others = tuple(name[1:] for name in names if name.startswith("-"))
    tests = [test for case in (LauncherTest, BuildsTest, HostileTest, TrainingTest) for test in loader.loadTestsFromTestCase(case)]
    for name in others:
        if not any(name in test.id() for test in tests):
            sys.exit(f"launcher_test: no test's name holds '{name}'")
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=0, resultclass=Result)
    result = runner.run(unittest.TestSuite(test for test in tests if not any(name in test.id() for name in others)))
    if result_file:
        ElementTree.ElementTree(result.suite).write(result_file, encoding="utf-8", xml_declaration=True)
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


if __name__ == "__main__":
    main()
