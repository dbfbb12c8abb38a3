"""Runs the code of README.md and of docs/quick-start.md as their readers would; for `run` beside this file.

A block of a page whose fence has a title, such as ```xml title="pom.xml", is a file of that name. The blocks of the language sh are
commands, which share one shell in an empty directory.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(HOME / "bin/lib"))
import keeper  # noqa: E402

README = HOME / "README.md"
QUICK_START = HOME / "docs/quick-start.md"
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
DEPENDENCIES = re.compile(r"( *<dependency>.*</dependency>\n)", re.DOTALL)
VERSION = ">0.1.0-SNAPSHOT<"
CLASSIFIER = re.compile(r">linux-x86_64(?:-cpu)?<")
SUMS = "[6.0, 6.0, 6.0, 6.0]"
PORT = "6379"
LIMIT_SECONDS = 600
END_SECONDS = 30


def blocks(page):
    """Language, title ("" without one) and text of each block of code."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def block(page, language, begin):
    """The only block of a language that begins so."""
    found = [text for its, _, text in blocks(page) if its == language and text.lstrip().startswith(begin)]
    if len(found) != 1:
        raise AssertionError(f"{page.name} has {len(found)} blocks of {language} that begin with {begin}, not one")
    return found[0]


def files(page):
    return {title: text for _, title, text in blocks(page) if title}


def of_repository(pom, version, classifier):
    """A page's pom with the version and the native library of the repository that is tested."""
    if pom.count(VERSION) != 2 or len(CLASSIFIER.findall(pom)) != 1:
        raise AssertionError(f"not two artifacts of version {VERSION}, one of them with a classifier: {pom}")
    return CLASSIFIER.sub(f">{classifier}<", pom.replace(VERSION, f">{version}<"))


def write(directory, texts):
    shutil.rmtree(directory, ignore_errors=True)
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def readme_project(directory, version, classifier):
    """A project whose dependencies and program are README's; the rest of its pom is that of the quick start."""
    dependencies = block(README, "xml", "<dependency>")
    quick = files(QUICK_START)
    pom, count = DEPENDENCIES.subn(lambda _: dependencies, quick["pom.xml"])
    if count != 1:
        raise AssertionError(f"{QUICK_START.name} has no dependencies")
    write(directory, {
        "pom.xml": of_repository(pom, version, classifier),
        "src/main/java/Shard.java": block(README, "java", "import"),
        "java.options": quick["java.options"],
    })


@contextmanager
def head(venv, java):
    """A cluster of its own: its keeper and its address."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(java).parent), str(venv / "bin"), os.environ["PATH"]])}
    directory = tempfile.mkdtemp(prefix="nvrar-", dir="/tmp")  # the names of Ray's sockets may have 107 characters
    process = subprocess.Popen(
        [sys.executable, keeper.__file__, f"--directory={directory}", f"--ray={venv / 'bin/ray'}", "--cpus=4"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline().strip()  # ends with the keeper's own deadline
        if not line.startswith("ready "):
            raise AssertionError(f"there is no Ray cluster: {line}")
        yield process, line.split()[1]
    finally:
        process.stdin.close()
        process.wait(END_SECONDS)


def run_readme(directory, venv, java):
    jar = next(venv.glob("lib/python3*/site-packages/ray/jars/ray_dist.jar"))
    with head(venv, java) as (holder, address):
        driver = subprocess.Popen(
            [java, "@java.options", f"-Dray.node-ip={address.rsplit(':', 1)[0]}", f"-Dray.job.code-search-path={directory / 'target'}",
             "-cp", f"{jar}:target/app.jar:target/lib/*", "Shard", address],
            cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        holder.stdin.write(f"driver {driver.pid}\n")  # it removes what Ray unpacks for a driver
        holder.stdin.flush()
        return finished("README's program", driver)


def finished(name, process):
    try:
        out = process.communicate(timeout=LIMIT_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    print(out, flush=True)
    if process.returncode != 0:
        raise AssertionError(f"{name} ended with code {process.returncode}: {out[-2000:]}")
    return out


def run_quick_start(directory, version, classifier, maven, java, python):
    """The page's commands.

    maven: Maven's command with the options that let it find the artifacts. java, python: what the page's reader has on the PATH.
    """
    texts = files(QUICK_START)
    texts["pom.xml"] = of_repository(texts["pom.xml"], version, classifier)
    write(directory, texts)
    commands = "".join(text for language, _, text in blocks(QUICK_START) if language == "sh")
    port = str(next(keeper.free_ports()))  # other clusters may run here
    if commands.count(PORT) != 2:
        raise AssertionError(f"{QUICK_START.name} names the port {PORT} {commands.count(PORT)} times, not twice")
    tools = directory.parent / "quick-start-tools"
    write(tools, {"mvn": '#!/bin/sh\nexec ' + " ".join(f"'{part}'" for part in maven) + ' "$@"\n'})
    (tools / "mvn").chmod(0o755)
    temporary = tempfile.mkdtemp(prefix="nvrar-", dir="/tmp")
    path = os.pathsep.join([str(tools), str(Path(java).parent), str(python), os.environ["PATH"]])
    keeper.prctl(keeper.PR_SET_CHILD_SUBREAPER, 1)
    before = set(keeper.descendants())
    with open(directory / "commands.log", "w+", encoding="utf-8") as log:
        shell = subprocess.Popen(
            ["bash", "-e", "-c", commands.replace(PORT, port)], cwd=directory, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, env={**os.environ, "PATH": path, "RAY_TMPDIR": temporary})
        try:
            leavings = watched(shell, before)
            left = ended(before)
        finally:
            for pid in set(keeper.descendants()) - before:
                keeper.signal_quietly(pid, keeper.signal.SIGKILL)
            shutil.rmtree(temporary, ignore_errors=True)
        for leaving in leavings:
            shutil.rmtree(leaving, ignore_errors=True)
        log.seek(0)
        out = log.read()
    print(out, flush=True)
    if shell.returncode != 0:
        head_log = keeper.read(directory / "head.log")
        raise AssertionError(f"the commands of {QUICK_START.name} ended with code {shell.returncode}: {out[-2000:]}{head_log[-1000:]}")
    if left:
        raise AssertionError(f"the commands of {QUICK_START.name} have left processes: {', '.join(left)}")
    return out


def watched(shell, before):
    """Waits for the shell; returns the directories into which Ray has unpacked its library for drivers, and which it never removes."""
    found = set()
    deadline = time.monotonic() + LIMIT_SECONDS
    while shell.poll() is None:
        if time.monotonic() > deadline:
            shell.kill()
            raise subprocess.TimeoutExpired(QUICK_START.name, LIMIT_SECONDS)
        for pid in set(keeper.descendants()) - before:
            match = keeper.DRIVER_DIR.search(keeper.read(f"/proc/{pid}/maps"))
            if match:
                found.add(match.group(1))
        time.sleep(0.3)
    return found


def ended(before):
    """The names of the processes that do not end by themselves."""
    deadline = time.monotonic() + END_SECONDS
    while True:
        keeper.reap()
        left = set(keeper.descendants()) - before
        if not left or time.monotonic() > deadline:
            return [f"{keeper.program(pid)} ({pid})" for pid in left]
        time.sleep(0.2)
