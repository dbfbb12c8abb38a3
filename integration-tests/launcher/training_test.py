"""Tests bin/nvrar train: what ranks learn together, what is left when an actor is killed, and wrong input."""

import contextlib
import csv
import glob
import os
import random
import re
import signal
import tempfile
import time

from support import Launcher, LauncherTestCase, wait_until

# A model that learns something in seconds.
SMALL = {
    "--layers": "2", "--width": "64", "--heads": "2", "--context": "64", "--batch": "16", "--steps": "200", "--checkpoint-every": "10", "--sample": "0"}
RUN_S = 180
HELD_OUT = re.compile(r"held-out text: loss ([0-9.]+), ([0-9.]+) bits a character")


def train(*options):
    """The command with these options, which are pairs, and those of the small model."""
    pairs = {**SMALL, **dict(zip(options[::2], options[1::2]))}
    return Launcher("train", *(word for pair in pairs.items() for word in pair))


class TrainingTest(LauncherTestCase):
    @contextlib.contextmanager
    def training(self, *options):
        """A run that ends well when the context does; its losses are then in the list, the last of them that of the held-out text."""
        results = []
        with tempfile.TemporaryDirectory() as directory:
            losses = os.path.join(directory, "losses.csv")
            with train("--losses", losses, *options) as launcher:
                yield launcher, results
                self.assert_ends(launcher, 0, RUN_S)
                with open(losses, encoding="utf-8", newline="") as file:
                    results += [float(row["loss"]) for row in csv.DictReader(file)]
                results.append(float(HELD_OUT.search(launcher.text(launcher.out))[1]))

    def losses(self, *options):
        with self.training(*options) as (_, results):
            pass
        self.assertEqual(len(results), 201)
        return results

    def assert_sentence(self, launcher, sentence):
        self.assertEqual(launcher.messages()[0], f"nvrar: {sentence}")

    def assert_close(self, some, others, limit, what):
        self.assertLess(max(abs(one - other) for one, other in zip(some, others)), limit, what)

    def test_24_ranks_learn_what_one_learns_and_killed_ones_change_nothing(self):
        alone = self.losses("--ranks", "1")
        self.assertLess(alone[-1], 2.6, "it has learned")
        for ranks in ("2", "4"):
            together = self.losses("--ranks", ranks)
            self.assert_close(alone[:50], together[:50], 1e-3, f"the first 50 losses of {ranks} ranks")
            self.assert_close(alone[:200], together[:200], 1e-2, f"the losses of {ranks} ranks")
            self.assert_close(alone[200:], together[200:], 0.02, f"the held-out loss of {ranks} ranks")
        with self.training("--ranks", "4") as (launcher, after_losses):
            wait_until(lambda: re.search(r"^step 20 of 200", launcher.text(launcher.err), re.MULTILINE), RUN_S, "step 20")
            time.sleep(random.uniform(0, 0.5))
            first = launcher.actors()
            for victim in first[:2]:
                os.kill(victim, signal.SIGKILL)
            wait_until(lambda: launcher.text(launcher.err).count("was lost after step") == 1, RUN_S, "the loss is said")
            wait_until(lambda: launcher.text(launcher.err).count("parameters on 4 ranks") == 2, RUN_S, "it resumes")
            os.kill(next(pid for pid in launcher.actors() if pid not in first), signal.SIGKILL)
            wait_until(lambda: launcher.text(launcher.err).count("was lost after step") == 2, RUN_S, "another loss is said")
        self.assertEqual(after_losses, together, "the same bits as without a loss")

    def test_25_a_run_goes_on_from_its_newest_checkpoint(self):
        with tempfile.TemporaryDirectory() as directory:
            options = ["--ranks", "2", "--checkpoints", directory, "--plot", os.path.join(directory, "curve.png")]
            with train(*options) as launcher:
                wait_until(lambda: re.search(r"^step 30 of 200", launcher.text(launcher.err), re.MULTILINE), RUN_S, "step 30")
                launcher.process.send_signal(signal.SIGTERM)
                self.assert_ends(launcher, 128 + signal.SIGTERM)
            kept = sorted(glob.glob(os.path.join(directory, "step-*.checkpoint")))
            self.assertIn(len(kept), (2, 3), "the third is between its move and the end of the oldest")
            with train(*options, "--width", "32") as launcher:
                self.assert_ends(launcher, 1)
                self.assert_sentence(launcher, f"the checkpoint {kept[-1]} is of another run: --width was 64, and is 32 now; "
                                              "another directory for --checkpoints begins a new one")
            with self.training(*options) as (launcher, resumed):
                pass
            self.assertEqual(resumed, self.losses("--ranks", "2"))
            with open(os.path.join(directory, "curve.png"), "rb") as file:
                self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
            newest = sorted(glob.glob(os.path.join(directory, "step-*.checkpoint")))[-1]
            size = os.path.getsize(newest)
            os.truncate(newest, size - 1)
            with train(*options) as launcher:
                self.assert_ends(launcher, 1)
                self.assert_sentence(launcher, f"the checkpoint {newest} is truncated: it has {size - 1} of {size} bytes; "
                                              "without this file the run goes on from the one before")

    def test_26_an_actor_that_is_lost_again_and_again_ends_the_run(self):
        with train("--ranks", "2", "--checkpoint-every", "200000", "--steps", "100000") as launcher:
            seen = []
            for start in range(1, 5):
                wait_until(lambda: launcher.text(launcher.err).count("parameters on 2 ranks") == start, RUN_S, f"start {start}")
                fresh = [pid for pid in launcher.actors() if pid not in seen]
                os.kill(fresh[0], signal.SIGKILL)
                seen += fresh
            self.assert_ends(launcher, 1)
            self.assertEqual(launcher.text(launcher.err).count("was lost after step"), 3)
            self.assertEqual(len(launcher.messages()), 1)

    def test_26_a_loss_that_is_no_number_ends_all_with_the_step_and_the_rank(self):
        with train("--ranks", "2", "--rate", "1e30") as launcher:
            self.assert_ends(launcher, 1, RUN_S)
            self.assertRegex(launcher.text(launcher.err), r"nvrar: the loss of rank 0 became NaN in step \d+: a smaller --rate may help\n$")

    def test_27_wrong_input_of_a_training_is_one_sentence_before_a_cluster_starts(self):
        with tempfile.TemporaryDirectory() as directory:
            empty = os.path.join(directory, "empty.txt")
            with open(empty, "wb"):
                pass
            for options, code, sentence in (
                    (["--text", f"{directory}/none.txt"], 1, f"there is no text {directory}/none.txt"),
                    (["--text", empty], 1, f"the text {empty} is empty"),
                    (["--text", directory], 1, f"{directory} is a directory, not a text"),
                    (["--rate", "NaN"], 2, "--rate is NaN, must be a number above 0"),
                    (["--ranks", "3"], 2, "--ranks is 3, must be 1 to 8 and divide --batch, 16"),
                    (["--heads", "3"], 2, "--heads is 3, must divide --width, 64"),
                    (["--checkpoint-every", "0"], 2, "--checkpoint-every is 0, must be 1 or more"),
                    (["--sample", "9", "--prompt", "#"], 1, "'#' has the character '#', which does not occur in the text"),
                    (["--width", "1024", "--layers", "12"], 1, "the model would have 151289856 parameters, and this lesson trains at most 20000000"),
                    (["--losses", directory], 1, f"{directory} is a directory, and a file is to be written"),
                    (["--losses", f"{directory}/none/losses.csv"], 1, f"there is no directory {directory}/none for {directory}/none/losses.csv"),
            ):
                with self.subTest(options), train(*options) as launcher:
                    self.assert_ends(launcher, code)
                    self.assert_sentence(launcher, sentence)
                    self.assertNotIn("starting a Ray cluster", launcher.text(launcher.err))
