"""What the launcher's tests start, and how they find what it left behind."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

HOME = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nvrar")
NVRAR = os.path.join(HOME, "bin/nvrar")
COMMAND_S = 90
# Ray stops within 8 s, else is killed; see keeper.py.
GONE_S = 30
LISTEN = "0A"
DRIVER_DIR = re.compile(r"(/tmp/ray/\d{13,})/")
LONG_DECODE = ["decode", "--max-tokens", "490", "--ignore-eos"] + [
    word for prompt in ("It was", "She said", "The house", "On Monday") for word in ("--prompt", prompt)]


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def list_dir(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def descendants():
    """Process ids below this process that are no zombies; those that nobody else reaps are reaped."""
    found = []
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        for task in list_dir(f"/proc/{pid}/task"):
            for child in map(int, read(f"/proc/{pid}/task/{task}/children").split()):
                todo.append(child)
                if read(f"/proc/{child}/stat").rpartition(")")[2].split()[:1] not in (["Z"], []):
                    found.append(child)
    return found


def command_line(pid):
    return read(f"/proc/{pid}/cmdline").split("\0")


def listening(pid):
    """The addresses on which a process listens, as the kernel prints them: hexadecimal, in words of the machine's byte order."""
    sockets = set()
    for entry in list_dir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except OSError:
            pass
    lines = [line.split() for name in ("tcp", "tcp6") for line in read(f"/proc/{pid}/net/{name}").splitlines()[1:]]
    return {words[1].split(":")[0] for words in lines if words[3] == LISTEN and f"socket:[{words[9]}]" in sockets}


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)
    return value


class Launcher:
    """One run of bin/nvrar in a session of its own. Leaving the context ends all that it left behind, after the test has looked."""

    def __init__(self, *arguments, environment=None, program=(NVRAR,)):
        """`environment` is beside this process's own, without what is None there; `program` is bin/nvrar, or what starts it."""
        self.arguments = arguments
        self.program = program
        self.environment = {name: value for name, value in {**os.environ, **(environment or {})}.items() if value is not None}
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.paths = set()

    def __enter__(self):
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [*self.program, *self.arguments], stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, start_new_session=True,
            env=self.environment)
        return self

    def __exit__(self, *_):
        while left := descendants():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
            self.process.poll()
        self.process.wait()
        self.out.close()
        self.err.close()

    @staticmethod
    def text(file):
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()

    def exit_code(self, seconds=COMMAND_S):
        """Waits for the end; negative: the number of the signal."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"bin/nvrar {' '.join(map(str, self.arguments))} has not ended within {seconds} s:\n{self.text(self.err)}")

    def await_output(self):
        """Seconds from the start to the first byte on standard output."""
        wait_until(
            lambda: os.fstat(self.out.fileno()).st_size or self.process.poll() is not None, COMMAND_S,
            f"the first output of bin/nvrar {' '.join(self.arguments)}")
        if not self.text(self.out):
            raise AssertionError(f"bin/nvrar has ended with {self.process.returncode} and no output:\n{self.text(self.err)}")
        return time.monotonic() - self.begin

    def messages(self):
        """What it said itself, without the lines of installing and building."""
        lines = [line for line in self.text(self.err).splitlines() if line.startswith("nvrar:")]
        return [line for line in lines if not re.match(r"nvrar: (installing|building:?|built|starting) ", line)]

    def driver(self):
        return next(pid for pid in descendants() if "io.nvrar.tools.Main" in command_line(pid))

    def actor(self):
        """A worker that is a member of the group, and not one that Ray has started in advance."""
        return self.actors()[0]

    def actors(self):
        workers = (pid for pid in descendants() if any("DefaultWorker" in word for word in command_line(pid)))
        return [pid for pid in workers if "/memfd:" in read(f"/proc/{pid}/maps")]

    def note_paths(self):
        """Keeps the directories in use by now, by which what is left behind is known."""
        for pid in descendants():
            words = command_line(pid)
            if any(word.endswith("/keeper.py") for word in words):
                self.paths.add(words[words.index("--directory") + 1])
            self.paths.update(DRIVER_DIR.findall(read(f"/proc/{pid}/maps")))
        if not {path for path in self.paths if path.startswith("/tmp/nvrar.")}:
            raise AssertionError("the keeper's directory was not found")
        if not {path for path in self.paths if path.startswith("/tmp/ray/")}:
            raise AssertionError("the driver's directory was not found")

    def await_nothing_left(self):
        begin = time.monotonic()
        wait_until(
            lambda: not descendants() and not any(map(os.path.exists, self.paths)), GONE_S,
            f"that nothing of {sorted(self.paths)} and no process is left")
        return time.monotonic() - begin


class LauncherTestCase(unittest.TestCase):
    def assert_ends(self, launcher, code, seconds=COMMAND_S):
        self.assertEqual(launcher.exit_code(seconds), code, launcher.text(launcher.err))
        launcher.await_nothing_left()
