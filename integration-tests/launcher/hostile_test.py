"""Where the environment or the machine is against the launcher: one sentence, or none of it is to be seen; and never for ever."""

import os
import signal
import tempfile

from builds_test import Checkout
from support import GONE_S, LONG_DECODE, NVRAR, Launcher, LauncherTestCase, descendants, wait_until

# Ray's shutdown is given up after 15 s; see Disconnection.java.
GIVEN_UP_S = 60


def ray_process(name):
    """A process of Ray below this one."""
    for pid in descendants():
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name:
                return pid
        except OSError:
            pass
    return None


def ray_start():
    """`ray start --block`, which is the keeper's only child that is neither of Ray's servers."""
    for pid in descendants():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"start" in words and b"--head" in words:
            return pid
    return None


class HostileTest(LauncherTestCase):
    def test_30_text_and_paths_are_utf8_whatever_the_locale(self):
        with Checkout("Prüf stand") as checkout:
            with checkout.launcher("decode", "--max-tokens", "2", "--prompt", "Süß — été", LC_ALL="C") as launcher:
                self.assert_ends(launcher, 0)
                self.assertIn("Süß — été", launcher.text(launcher.out))
            with checkout.launcher("hello-processes", "--ranks", "2", LC_ALL="POSIX") as launcher:
                self.assert_ends(launcher, 0)

    def test_31_a_prompt_that_is_no_text_and_a_path_that_java_cannot_have_are_one_sentence(self):
        with Launcher("decode", "--prompt", b"caf\xe9", "--max-tokens", "2") as launcher:
            self.assert_ends(launcher, 1)
            self.assertEqual(len(launcher.messages()), 1, launcher.text(launcher.err))
            self.assertIn("is not text in UTF-8", launcher.messages()[0])
        with Checkout("with:colon") as checkout, checkout.launcher("hello-processes") as launcher:
            self.assert_ends(launcher, 1)
            self.assertRegex(launcher.text(launcher.err), r"\Anvrar: this checkout is in \S+/with:colon, .*\n\Z")

    def test_32_what_the_user_has_set_for_other_programs_is_not_ours(self):
        with tempfile.TemporaryDirectory() as foreign:
            for name in ("ray.py", "sitecustomize.py"):
                with open(os.path.join(foreign, name), "w", encoding="utf-8") as file:
                    file.write("raise SystemExit('foreign')\n")
            environment = {
                "PYTHONPATH": foreign, "PYTHONHOME": foreign, "PYTHONSTARTUP": os.path.join(foreign, "ray.py"), "HOME": None,
                "JAVA_TOOL_OPTIONS": "-Xlog:gc", "JDK_JAVA_OPTIONS": "-XX:+UseParallelGC", "RAY_USE_TLS": "1", "RAY_AUTH_MODE": "token",
                "RAY_ADDRESS": "127.0.0.1:1", "RAY_gcs_storage": "redis", "RAY_REDIS_ADDRESS": "127.0.0.1:1"}
            for arguments in (
                    ("hello", "--ranks", "2", "--backend", "cpu"), ("hello-processes", "--ranks", "2"),
                    ("bench", "--compare", "java", "--processes", "2", "--rounds", "1", "--repeats", "1", "--iters", "1", "--warmup", "0", "--max", "8")):
                with self.subTest(arguments), Launcher(*arguments, environment=environment) as launcher:
                    self.assert_ends(launcher, 0)
                    self.assertNotIn("foreign", launcher.text(launcher.err))
            with Launcher("doctor", "--help", environment=environment) as launcher:
                self.assert_ends(launcher, 0)
                self.assertEqual(launcher.text(launcher.err), "")

    def test_32_a_collector_for_all_jvms_is_that_of_ours(self):
        environment = {"JAVA_TOOL_OPTIONS": "-XX:+UseParallelGC"}
        for arguments in (("hello", "--ranks", "2"), ("hello-processes", "--ranks", "2")):
            with self.subTest(arguments), Launcher(*arguments, environment=environment) as launcher:
                self.assert_ends(launcher, 0)
                self.assertNotIn("Multiple garbage collectors", launcher.text(launcher.err))

    def test_32_a_version_of_ray_that_is_none_is_one_sentence(self):
        for version in ("../../x", "2.60.0 --pre", "newest"):
            with self.subTest(version), Launcher("hello", environment={"NVRAR_RAY_VERSION": version}) as launcher:
                self.assert_ends(launcher, 1)
                self.assertEqual(launcher.text(launcher.err), f"nvrar: NVRAR_RAY_VERSION is '{version}', must be a version such as 2.60.0\n")

    def test_33_too_few_open_files_are_called_that(self):
        for files, arguments in ((64, ("hello-processes",)), (256, ("hello",))):
            program = ("bash", "-c", f'ulimit -n {files} && exec "$@"', "-", NVRAR)
            with self.subTest(arguments), Launcher(*arguments, program=program) as launcher:
                self.assert_ends(launcher, 1)
                self.assertEqual(len(launcher.messages()), 1, launcher.text(launcher.err))
                self.assertIn(f"may open {files} files", launcher.messages()[0])

    def test_34_a_cluster_that_ends_by_itself_is_a_failure_in_one_sentence(self):
        # The kernel ends the others with their parent, and which of them is seen first is open.
        victims = {
            "its raylet has ended": lambda: ray_process("raylet"), "its gcs_server has ended": lambda: ray_process("gcs_server"),
            r"(its (raylet|gcs_server) has ended|'ray start' has ended \(exit code -9\))": ray_start}
        for why, victim in victims.items():
            with self.subTest(why), Launcher(*LONG_DECODE) as launcher:
                launcher.await_output()
                launcher.note_paths()
                os.kill(victim(), signal.SIGKILL)
                self.assertEqual(launcher.exit_code(GONE_S), 1, launcher.text(launcher.err))
                launcher.await_nothing_left()
                self.assertRegex(launcher.messages()[-1], rf"\Anvrar: the Ray cluster has ended by itself: {why}\Z")
                self.assertEqual(len(launcher.messages()), 1, launcher.text(launcher.err))

    def test_35_a_raylet_that_is_stuck_does_not_hold_a_decode_for_ever(self):
        with Launcher("decode", "--max-tokens", "100", "--ignore-eos") as launcher:
            launcher.await_output()
            launcher.note_paths()
            os.kill(wait_until(lambda: ray_process("raylet"), 1, "a raylet"), signal.SIGSTOP)
            self.assertEqual(launcher.exit_code(GIVEN_UP_S), 1, launcher.text(launcher.err))
            launcher.await_nothing_left()
            self.assertIn("100 tokens, ", launcher.text(launcher.err))
            self.assertIn("the raylet of this node is stopped or stuck", launcher.messages()[-1])

    def test_35_a_gcs_that_is_stuck_does_not_hold_a_decode_for_ever(self):
        with Launcher("decode", "--max-tokens", "400", "--ignore-eos") as launcher:
            launcher.await_output()
            launcher.note_paths()
            os.kill(wait_until(lambda: ray_process("gcs_server"), 1, "a GCS"), signal.SIGSTOP)
            self.assertEqual(launcher.exit_code(GIVEN_UP_S), 1, launcher.text(launcher.err))
            launcher.await_nothing_left()
            self.assertIn("400 tokens, ", launcher.text(launcher.err))
            self.assertIn("the GCS of the Ray cluster is stopped or stuck", launcher.messages()[-1])

    def test_36_a_member_that_is_started_by_hand_harms_no_file(self):
        with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as precious:
            precious.write("precious")
            precious.flush()
            # Never without any descriptor 3, which then is a file of the JDK.
            program = ("bash", "-c", 'exec "$@" 3<> "$0"', precious.name, NVRAR)
            for arguments in (("hello-processes", "--rank", "0"), ("bench", "--member", "0", "--processes", "2", "--barrier", "/nowhere")):
                with self.subTest(arguments), Launcher(*arguments, program=program) as launcher:
                    self.assert_ends(launcher, 2)
                    self.assertRegex(launcher.messages()[0], "there is no pipe for the answers")
                    with open(precious.name, encoding="utf-8") as file:
                        self.assertEqual(file.read(), "precious")
