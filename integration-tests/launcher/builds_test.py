"""What runs is never touched by another command, another build or another user of the same checkout."""

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

from support import CACHE, COMMAND_S, HOME, LONG_DECODE, Launcher, LauncherTestCase, descendants, read

# Takes what the tested checkout has built for its own work, and its nvcc for the compiler of the kernels.
MAVEN = r"""#!/bin/sh
[ "$1" != --version ] || { echo 'Apache Maven 3.9.9'; exit 0; }
cd "$NVRAR_TEST_CHECKOUT" || exit 1
nvcc="$(native/cmake/find-nvcc 2> /dev/null)"
echo "$nvcc" >> calls
mkdir -p examples/target/lib native/build/release
if [ -e broken ]; then
  echo '[ERROR] Source.java:[1,1] class, interface, enum, or record expected'
  rm -rf examples/target
  exit 1
fi
cp "$NVRAR_TEST_JARS"/*.jar examples/target/lib && mv examples/target/lib/ray-nvrar-examples-*.jar examples/target || exit 1
if [ -n "$nvcc" ]; then echo .nv_fatbin; fi > native/build/release/libnvrar.so
"""
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.1'\n"
FUZZ = """#!/bin/sh
for lock in build fuzz; do
  flock -n "$NVRAR_TEST_CHECKOUT/target/nvrar/$lock.lock" true || echo "$lock is locked"
done
"""
NOBODY = 65534


class Checkout:
    """A checkout of its own in which bin/nvrar builds by a script in Maven's place."""

    def __init__(self, name="checkout"):
        self.parent = tempfile.mkdtemp(prefix="nvrar-checkout.")
        os.chmod(self.parent, 0o755)
        self.home = os.path.join(self.parent, name)
        shutil.copytree(os.path.join(HOME, "bin"), os.path.join(self.home, "bin"))
        for path in ("pom.xml", "native/cmake/find-nvcc", "native/cuda-requirements.txt"):
            os.makedirs(os.path.dirname(os.path.join(self.home, path)), exist_ok=True)
            shutil.copy2(os.path.join(HOME, path), os.path.join(self.home, path))
        model = "examples/09-llama-decode/model/tiny-english"
        shutil.copytree(os.path.join(HOME, model), os.path.join(self.home, model))
        self.source = os.path.join(self.home, "ray-plugin/Source.java")
        os.makedirs(os.path.join(self.home, "tools"))
        self.edit()
        tools = os.path.join(self.parent, "tools")
        self.write(os.path.join(tools, "mvn"), MAVEN, 0o755)
        self.environment = {
            "PATH": f"{tools}:{os.environ['PATH']}", "NVRAR_TEST_CHECKOUT": self.home, "CUDA_HOME": None,
            "NVRAR_TEST_JARS": os.path.join(HOME, "target/nvrar/current/lib"), "XDG_CACHE_HOME": self.cache("cache")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.parent)

    @staticmethod
    def write(path, text, mode=0o644):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def cache(self, name):
        """A directory for XDG_CACHE_HOME that has Ray, and no compiler of kernels."""
        cache = os.path.join(self.parent, name)
        os.makedirs(os.path.join(cache, "nvrar"), 0o700)
        for ray in glob.glob(os.path.join(CACHE, "ray-*")):
            os.symlink(ray, os.path.join(cache, "nvrar", os.path.basename(ray)))
        return cache

    def cache_with_compiler(self, name):
        cache = self.cache(name)
        installed = subprocess.run(
            [os.path.join(self.home, "native/cmake/find-nvcc"), "--installed"], capture_output=True, text=True, check=True,
            env={**os.environ, "XDG_CACHE_HOME": cache}).stdout.strip()
        self.write(os.path.join(installed, "toolkit/bin/nvcc"), NVCC, 0o755)
        self.write(os.path.join(installed, ".complete"), "")
        return cache

    def edit(self):
        self.write(self.source, read(self.source) + "// edited\n")

    def break_build(self, broken=True):
        path = os.path.join(self.home, "broken")
        if broken:
            self.write(path, "")
        else:
            os.remove(path)

    def compilers(self):
        """The compiler of the kernels of each call of Maven."""
        return read(os.path.join(self.home, "calls")).splitlines()

    def builds(self):
        return len(self.compilers())

    def published(self):
        return os.listdir(os.path.join(self.home, "target/nvrar/builds"))

    def launcher(self, *arguments, before=(), **environment):
        return Launcher(
            *arguments, environment={**self.environment, **environment}, program=(*before, os.path.join(self.home, "bin/nvrar")))

    def run(self, *arguments, before=(), **environment):
        """Runs a command to its end beside what else runs."""
        launcher = self.launcher(*arguments, before=before, **environment)
        return subprocess.run(
            [*launcher.program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=launcher.environment,
            timeout=COMMAND_S, check=False)

    def other_user(self):
        """What starts a program as somebody who may not write to this checkout, and the environment for it."""
        home = os.path.join(self.parent, "nobody")
        os.mkdir(home, 0o700)
        if os.geteuid() != 0:
            return (), {"HOME": home, "XDG_CACHE_HOME": os.path.join(home, ".cache")}
        os.chown(home, NOBODY, NOBODY)
        return (
            ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"), {"HOME": home, "XDG_CACHE_HOME": os.path.join(home, ".cache")})

    def writable(self, writable):
        """For the one who is no root, and so is the other user as well."""
        subprocess.run(["chmod", "-R", "u+w" if writable else "a-w", self.home], check=True)


def let_breathe(pid):
    """Lets a stopped process run for a moment: a peer that is silent for 10 s counts as lost."""
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.3)
    os.kill(pid, signal.SIGSTOP)


def lost_files():
    """Jars that a process below this one uses, and that are no longer there."""
    links = []
    for pid in descendants():
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                links.append(os.readlink(path))
            except OSError:
                pass
    return [link for link in links if link.endswith(".jar (deleted)")]


class BuildsTest(LauncherTestCase):
    def test_20_what_runs_keeps_its_files_whoever_builds_meanwhile(self):
        with Checkout() as checkout:
            with checkout.launcher(*LONG_DECODE) as decode:
                decode.await_output()
                # Else it is over before all these builds are, where others want the processors too.
                driver = decode.driver()
                os.kill(driver, signal.SIGSTOP)
                self.assertEqual(checkout.builds(), 1)
                other = {"XDG_CACHE_HOME": checkout.cache_with_compiler("other")}
                second = checkout.run("setup", **other)
                self.assertEqual(second.returncode, 0, second.stderr)
                self.assertEqual(checkout.builds(), 1, "another compiler is no reason to build")
                let_breathe(driver)
                checkout.edit()
                self.assertEqual(checkout.run("setup").returncode, 0)
                self.assertEqual(checkout.builds(), 2)
                let_breathe(driver)
                checkout.edit()
                checkout.break_build()
                broken = checkout.run("setup", **other)
                self.assertEqual(broken.returncode, 1)
                self.assertIn("the build failed", broken.stderr)
                self.assertEqual(lost_files(), [])
                self.assertIsNone(decode.process.poll(), "the decode was over before it could be disturbed")
                os.kill(driver, signal.SIGCONT)
                self.assert_ends(decode, 0)
            self.assertEqual(len(checkout.published()), 2, "a build that somebody ran, and the newest")
            checkout.break_build(False)
            self.assertEqual(checkout.run("setup").returncode, 0)
            self.assertEqual(len(checkout.published()), 1, "nobody runs the others any more")

    def test_21_a_failed_build_leaves_the_last_one_for_the_sources_that_it_is_of(self):
        with Checkout() as checkout:
            before = os.stat(checkout.source)
            self.assertEqual(checkout.run("setup").returncode, 0)
            checkout.edit()
            checkout.break_build()
            self.assertEqual(checkout.run("setup").returncode, 1)
            checkout.write(checkout.source, read(checkout.source)[:before.st_size])
            os.utime(checkout.source, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.assertEqual(checkout.run("post-mortem", "--help").returncode, 0)

    def test_22_another_user_runs_what_is_built_and_is_told_in_a_sentence_what_is_not(self):
        with Checkout() as checkout:
            before, environment = checkout.other_user()
            checkout.writable(False)
            unbuilt = checkout.run("hello-processes", before=before, **environment)
            self.assertEqual(unbuilt.returncode, 1)
            self.assertRegex(unbuilt.stderr, r"\Anvrar: [^\n]* may not write to [^\n]*\n\Z")
            checkout.writable(True)
            self.assertEqual(checkout.run("setup").returncode, 0)
            checkout.writable(False)
            built = checkout.run("hello-processes", "--ranks", "2", before=before, **environment)
            self.assertEqual((built.returncode, built.stderr), (0, ""))
            self.assertEqual(checkout.builds(), 1)

    def test_23_only_setup_with_a_compiler_builds_again_what_has_no_kernels(self):
        with Checkout() as checkout:
            self.assertEqual(checkout.run("setup").returncode, 0)
            cuda = {"XDG_CACHE_HOME": checkout.cache_with_compiler("cuda")}
            for arguments, builds in ((("setup",), 1), (("setup", "--cuda"), 2), (("setup", "--cuda"), 2), (("setup",), 2)):
                done = checkout.run(*arguments, **cuda)
                self.assertEqual((done.returncode, checkout.builds()), (0, builds), done.stderr)
            checkout.edit()
            done = checkout.run("setup")
            self.assertEqual((done.returncode, checkout.builds()), (0, 3), done.stderr)
            self.assertIn(cuda["XDG_CACHE_HOME"], checkout.compilers()[-1], "who has no compiler takes the kernels from nobody")

    def test_24_fuzzing_builds_alone_as_every_other_test_does_and_then_lets_others_build(self):
        script = 'set -euo pipefail; for part in common build test; do . "$NVRAR_HOME/bin/lib/$part.sh"; done; "$@"'
        with Checkout() as checkout:
            for module, lock in (("native", "fuzz"), ("ray-plugin", "build")):
                checkout.write(os.path.join(checkout.home, module, "fuzz/run"), FUZZ, 0o755)
                for command, said in ((("fuzz_build", checkout.home, module), f"{lock} is locked\n"), (("fuzz_tests", checkout.home, module, "1"), "")):
                    done = subprocess.run(
                        ["bash", "-c", script, "-", *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S,
                        check=False, env={**os.environ, "NVRAR_HOME": checkout.home, "NVRAR_TEST_CHECKOUT": checkout.home})
                    self.assertEqual((done.returncode, done.stdout, done.stderr), (0, said, ""))
