"""Keeps one private Ray cluster for one launcher, and leaves nothing of it behind.

The launcher holds the other end of this process's standard input. When that closes, because the launcher has finished
or was killed in any way, the cluster is stopped and its files are removed. Lines on standard input: `driver PID` names
the launcher's Java process; `ended` reports that this process has failed, and asks for an answer. Lines on standard
output: `ready HOST:PORT` or `failed <one sentence>`, once; `lost <one sentence>` if the cluster has ended by itself,
which also ends the driver; `up` is the answer to `ended` if the cluster still runs.

With --on-demand the cluster starts only when the driver writes the line `start`, the first line on standard output is
`here`, and what became of the start is in the file `answer` in the directory.

Ray's processes change their names and sessions, so they are found by descent, not by name: this process is the reaper
of all its orphaned descendants (prctl), and all its descendants are the cluster.
"""

import argparse
import ctypes
import errno
import glob
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOP_S = 8.0
KILL_S = 5.0
# How many GPUs Ray's actors are given on a machine that has none.
PRETENDED_GPUS = 8
NVIDIA_SMI_S = 60.0
DRIVER_STOP_S = 3.0
# Ray's Java driver unpacks its native library into a directory named by the current time and never deletes it.
# (integration-tests' DriverFiles.java has the same pattern.)
DRIVER_DIR = re.compile(r"(/tmp/ray/\d{13,})/libcore_worker_library_java\.so")
LOST = "the Ray cluster has ended by itself"
STARTED = "Ray runtime started"
# For Ray's servers, which bind them seconds after they were chosen. By default the kernel gives none of these to a process that asks
# for any port, Ray takes none of them by itself, and the soak's ranks take those below.
PORTS = range(30000, 32768)
# The cluster does not work without any one of these.
VITAL = ("gcs_server", "raylet")
NODE = re.compile(r"Local node IP: (\S+)")
# `ray start` replaces --node-ip-address=127.0.0.1 by an address that other machines can reach. With this variable,
# whose value is the default on macOS, it uses 127.0.0.1, and its processes, whose ports have no password, listen only
# there.
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def prctl(option, value):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def descendants():
    """Process ids below this process, children before their parents' siblings; racy by nature, so callers repeat."""
    found = []
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        for task in list_dir(f"/proc/{pid}/task"):
            below = [int(child) for child in read(f"/proc/{pid}/task/{task}/children").split()]
            found += below
            todo += below
    return found


def list_dir(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def signal_quietly(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


class Driver:
    """The launcher's Java process, held by a descriptor, because its process id may be reused."""

    def __init__(self, pid):
        self.pid = pid
        self.directory = None
        try:
            self.descriptor = os.pidfd_open(pid)
        except OSError:
            self.descriptor = None

    def alive(self):
        return self.descriptor is not None and not select.select([self.descriptor], [], [], 0)[0]

    def look(self):
        if self.directory is None and self.alive():
            match = DRIVER_DIR.search(read(f"/proc/{self.pid}/maps"))
            self.directory = match.group(1) if match else None

    def stop(self):
        for number, patience in ((signal.SIGTERM, DRIVER_STOP_S), (signal.SIGKILL, KILL_S)):
            if not self.alive():
                return
            signal.pidfd_send_signal(self.descriptor, number)
            select.select([self.descriptor], [], [], patience)

    def clean(self):
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


class Cluster:
    def __init__(self, options):
        self.directory = options.directory
        self.log = os.path.join(self.directory, "start.log")
        ports = free_ports()
        self.port = next(ports)
        self.vital = {}
        self.gone = None  # a vital process that had ended before it could be watched
        environment = {**os.environ, **LOOPBACK_ONLY}
        gpus = 0 if options.pretended_gpus else visible_gpus()
        resources = []
        if not gpus:
            gpus = options.pretended_gpus or PRETENDED_GPUS
            # Ray counts these entries, but none is a real GPU: CUDA stops at the first number that names no GPU.
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(["-1"] * gpus)
            # So that whoever wants real ones need not start actors to find that there is none.
            resources = [f'--resources={{"pretended_gpus": {gpus}}}']
        # Ray would take these ports from fixed numbers or ranges, which other clusters on this machine use, too.
        command = [
            options.ray, "start", "--head", "--block", f"--port={self.port}", f"--num-cpus={options.cpus}", f"--num-gpus={gpus}",
            "--min-worker-port=0", "--max-worker-port=0", f"--dashboard-agent-listen-port={next(ports)}",
            "--include-dashboard=false", "--no-monitor", "--object-store-memory=200000000", f"--temp-dir={self.directory}", "--disable-usage-stats",
            *resources,
        ]
        if knows_option(options.ray, "--include-log-monitor"):
            command.append("--include-log-monitor=false")  # It is for Python drivers only, and takes time to start.
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env=environment,
                preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM))

    def address(self):
        """HOST:PORT once the cluster is up, else None."""
        text = read(self.log)
        match = NODE.search(text)
        return f"{match.group(1)}:{self.port}" if match and STARTED in text else None

    def watch(self):
        """Called once the cluster is up: lost() then detects at once when a vital process ends. (`ray start` polls.)"""
        for pid in descendants():
            name = program(pid)
            if name in VITAL:
                try:
                    self.vital[os.pidfd_open(pid)] = name
                except OSError as error:
                    # If watching is not permitted, `ray start` detects the end of a process, a little later.
                    if error.errno in (errno.ESRCH, errno.EINVAL):
                        self.gone = name

    def lost(self):
        """Why the cluster has ended; None while it runs."""
        code = self.process.poll()
        if code is not None:
            return f"'ray start' has ended (exit code {code})"
        ended = select.select(list(self.vital), [], [], 0)[0]
        name = self.vital[ended[0]] if ended else self.gone
        return f"its {name} has ended" if name else None

    def tail(self):
        lines = [line.rstrip() for line in read(self.log).splitlines() if line.strip()]
        return "".join(f"\n  {line}" for line in lines[-15:])

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                pass
        end = time.monotonic() + KILL_S
        while (left := descendants()) and time.monotonic() < end:
            for pid in left:
                signal_quietly(pid, signal.SIGKILL)
            time.sleep(0.02)
            reap()
        if left:
            print(f"nvrar: processes {left} of the Ray cluster do not end", file=sys.stderr)


def visible_gpus():
    """The number of GPUs that are visible to this process's children."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        names = shown.split(",")
        return next((i for i, name in enumerate(names) if not name.strip() or name.strip().startswith("-")), len(names))
    try:
        done = subprocess.run(["nvidia-smi", "-L"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=NVIDIA_SMI_S)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines()) if done.returncode == 0 else 0


def knows_option(ray, name):
    """Whether this version's `ray start` has a (hidden) option. Running it with --help would take half a second."""
    scripts = glob.glob(os.path.join(os.path.dirname(ray), "../lib/python3*/site-packages/ray/scripts/scripts.py"))
    return any(f'"{name}"' in read(script) for script in scripts)


def free_ports():
    """Ports that nobody uses now, each once, in random order."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        yield port


def say(line):
    try:
        print(line, flush=True)
    except BrokenPipeError:
        pass  # The launcher is gone; this process will also read the end of standard input.


def answer(options, line):
    """Says what became of the start to whoever has asked for it."""
    if not options.on_demand:
        say(line)
        return
    file = os.path.join(options.directory, "answer")
    with open(f"{file}.new", "w", encoding="utf-8") as output:
        output.write(f"{line}\n")
    os.rename(f"{file}.new", file)


def keep(options, clusters, holder):
    """Runs until the launcher closes standard input. Appends the cluster to `clusters`, the driver to `holder`."""
    cluster = None
    told = failed = False
    lost = None
    deadline = None

    def start():
        nonlocal cluster, deadline
        cluster = Cluster(options)
        clusters.append(cluster)
        deadline = time.monotonic() + options.deadline

    if options.on_demand:
        say("here")
    elif options.ray:
        start()
    else:
        say("ready -")
    pending = b""
    while True:
        watched = list(cluster.vital) if cluster and not lost else []
        if 0 in select.select([0, *watched], [], [], 0.05 if cluster and not told else 0.3)[0]:
            data = os.read(0, 4096)
            if not data:
                return
            pending += data
            *lines, pending = pending.split(b"\n")
            for line in lines:
                if line == b"start":
                    if cluster is None and options.ray:
                        start()
                elif line == b"ended":
                    options.only_failures = False
                    if not failed:
                        lost = lost or (cluster and cluster.lost())
                    say(f"lost {LOST}: {lost}" if lost else "up")
                else:
                    holder.append(Driver(int(line.split()[1])))
        for driver in holder:
            driver.look()
        if cluster is None or failed:
            continue
        if not told:
            ended = cluster.process.poll()
            address = cluster.address()
            if address:
                cluster.watch()
                answer(options, f"ready {address}")
                told = True
            elif ended is not None or time.monotonic() > deadline:
                sys.stderr.write(f"nvrar: the log of 'ray start' ends with:{cluster.tail()}\n")
                how = f" within {options.deadline:.0f} s" if ended is None else f": 'ray start' ended with exit code {ended}"
                answer(options, f"failed the Ray cluster did not start{how}")
                if not options.on_demand:
                    return
                # The directory stays until the driver has read the answer.
                told = failed = True
            continue
        if not lost and (lost := cluster.lost()):
            if not options.only_failures:
                sys.stderr.write(f"nvrar: the log of 'ray start' ends with:{cluster.tail()}\n")
            say(f"lost {LOST}: {lost}")
        if lost:
            for driver in holder:
                driver.stop()


def keep_logs(options):
    """Keeps the logs of the last cluster that had any: one that did not start, or is not ours, has none."""
    logs = os.path.join(options.directory, "session_latest", "logs")
    if not os.path.isdir(logs):
        return
    try:
        shutil.rmtree(options.keep_logs, ignore_errors=True)
        shutil.copytree(logs, options.keep_logs, dirs_exist_ok=True)
    except OSError as error:
        print(f"nvrar: not all of the cluster's logs could be copied to {options.keep_logs}: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", required=True, help="temporary directory; removed at the end")
    parser.add_argument("--ray", help="the ray command; without it no cluster is started, only the driver's leavings are removed")
    parser.add_argument("--on-demand", action="store_true", help="start the cluster only when the driver asks for it")
    parser.add_argument("--cpus", type=int, default=16)
    parser.add_argument(
        "--pretended-gpus", type=int,
        help=f"GPUs that Ray gives to actors and that are none; default: the machine's own, or {PRETENDED_GPUS} if it has none")
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds for the cluster to start")
    parser.add_argument("--keep-logs", help="where the cluster's logs go at the end")
    parser.add_argument("--only-failures", action="store_true", help="only if the driver has ended badly")
    options = parser.parse_args()

    os.setsid()  # Ctrl-C goes only to the launcher, which then ends the driver and the cluster in order.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def leave(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)
    drivers = []
    clusters = []
    try:
        keep(options, clusters, drivers)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for driver in drivers:
            driver.look()
            driver.stop()
        for cluster in clusters:
            cluster.stop()
        if options.keep_logs and not options.only_failures:
            keep_logs(options)
        for driver in drivers:
            driver.clean()
        shutil.rmtree(options.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
