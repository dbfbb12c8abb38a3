"""What runs is never touched by another command, another build or another user of the same checkout."""

import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

from support import CACHE, COMMAND_S, HOME, LONG_DECODE, Launcher, LauncherTestCase, descendants, read

sys.path.insert(0, os.path.join(HOME, "bin/lib"))
import fuzzing  # noqa: E402

# Takes what the tested checkout has built for its own work, and its nvcc for the compiler of the kernels.
MAVEN = r"""#!/bin/sh
[ "$1" != --version ] || { echo 'Apache Maven 3.9.9'; exit 0; }
cd "$NVRAR_TEST_CHECKOUT" || exit 1
nvcc="$(native/cmake/find-nvcc 2> /dev/null)"
echo "$nvcc" >> calls
echo "$NVRAR_CMAKE_OPTIONS" >> options
launched=examples/09-llama-decode/target
mkdir -p $launched/run/lib integration-tests/soak/target/run native/build/run
if [ -e broken ]; then
  echo '[ERROR] Source.java:[1,1] class, interface, enum, or record expected'
  rm -rf $launched
  exit 1
fi
echo '[INFO] Building ray-nvrar Llama decode 0.1.0-SNAPSHOT                      [5/6]'
cp "$NVRAR_TEST_JARS"/*.jar $launched/run/lib && mv $launched/run/lib/ray-nvrar-llama-decode-*.jar $launched/run &&
  mv $launched/run/lib/ray-nvrar-soak-*.jar integration-tests/soak/target/run || exit 1
case "$NVRAR_CMAKE_OPTIONS" in
  *OFF*) : ;;
  *) if [ -n "$nvcc" ]; then echo .nv_fatbin; fi ;;
esac > native/build/run/libnvrar.so
"""
NVCC = """#!/bin/sh
[ "$1" != --list-gpu-code ] || { printf '%s\\n' sm_80 sm_90 sm_100; exit 0; }
echo 'Cuda compilation tools, release 13.0, V13.0.1'
"""
NVIDIA_SMI = """#!/bin/sh
case "$1" in
  -L) echo 'GPU 0: One and only (UUID: GPU-0)' ;;
  *) echo "$NVRAR_TEST_CAPABILITY" ;;
esac
"""
FUZZ = """#!/bin/sh
for lock in build fuzz; do
  flock -n "$NVRAR_TEST_CHECKOUT/target/nvrar/$lock.lock" true || echo "$lock is locked"
done
"""
# In its time it does its corpus of 147 inputs, and adds three to it. By a number of executions it does as many, but at most $1 new ones.
IDLE_TARGET = """#!/bin/sh
seeds=$((147 + $(ls | wc -l)))
new=0
for option; do
  case "$option" in -runs=*) new=$((${option#-runs=} - seeds - 1)) ;; esac
done
[ "$new" -le "$1" ] || new=$1
touch a b c
echo "INFO: seed corpus: files: $seeds min: 1b max: 9b"
echo "stat::number_of_executed_units: $((seeds + 1 + new))"
echo "stat::average_exec_per_sec:     40"
"""
# Executes $1 inputs after the empty one.
PASS_TARGET = """#!/bin/sh
echo "INFO: seed corpus: files: $1 min: 1b max: 9b"
echo "stat::number_of_executed_units: $(($1 + 1))"
echo "stat::average_exec_per_sec:     0"
"""
RUN_ONE_TARGET = """
import os
import sys
import fuzzing
target, argument = sys.argv[1:3]
del sys.argv[1:3]
fuzzing.run_all("suite", os.path.dirname(target), ["target"], lambda name, inputs, limits: [target, argument, *limits], fuzzing.arguments(""))
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
        for source in ("tools", "integration-tests/soak"):
            os.makedirs(os.path.join(self.home, source))
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

    def options(self):
        """The options of CMake of each call of Maven, without those that forget an earlier choice."""
        return [" ".join(word for word in line.split() if not word.startswith("-U")) for line in read(os.path.join(self.home, "options")).splitlines()]

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

    def test_23_kernels_are_compiled_only_for_a_gpu_or_where_setup_was_asked_for_them(self):
        with Checkout() as checkout:
            compiler = {"XDG_CACHE_HOME": checkout.cache_with_compiler("cuda")}
            gpu = os.path.join(checkout.parent, "gpu")
            checkout.write(os.path.join(gpu, "nvidia-smi"), NVIDIA_SMI, 0o755)
            on_gpu = {**compiler, "PATH": f"{gpu}:{checkout.environment['PATH']}"}
            cases = (
                (("post-mortem", "--help"), compiler, "-DNVRAR_KERNELS=OFF"),
                (("setup",), compiler, "-DNVRAR_KERNELS=OFF"),
                (("post-mortem", "--help"), {**on_gpu, "NVRAR_TEST_CAPABILITY": "9.0"}, "-DNVRAR_KERNELS=AUTO -DNVRAR_CUDA_ARCHITECTURES=90-real"),
                (("post-mortem", "--help"), {**on_gpu, "NVRAR_TEST_CAPABILITY": "99.0"}, "-DNVRAR_KERNELS=AUTO"),
                (("setup", "--cuda"), compiler, "-DNVRAR_KERNELS=AUTO"),
                (("post-mortem", "--help"), compiler, "-DNVRAR_KERNELS=AUTO"))
            for arguments, environment, options in cases:
                with self.subTest(arguments=arguments, options=options):
                    checkout.edit()
                    done = checkout.run(*arguments, **environment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(checkout.options()[-1], options)

    def test_23_a_build_says_how_far_it_is_and_only_on_standard_error(self):
        with Checkout() as checkout:
            done = checkout.run("setup")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertIn("nvrar: building ", done.stderr)
            self.assertIn("nvrar: built in ", done.stderr)

    def test_23_a_build_folder_of_another_checkout_is_made_anew(self):
        with tempfile.TemporaryDirectory() as parent:
            native = os.path.join(parent, "native")
            os.makedirs(os.path.join(native, "cmake"))
            shutil.copy2(os.path.join(HOME, "native/cmake/configure"), os.path.join(native, "cmake/configure"))
            with open(os.path.join(native, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.25)\nproject(moved LANGUAGES NONE)\n")
            with open(os.path.join(native, "CMakePresets.json"), "w", encoding="utf-8") as file:
                file.write('{"version": 6, "configurePresets": [{"name": "run", "generator": "Ninja", "binaryDir": "${sourceDir}/build/run"}]}')

            def configure(folder):
                return subprocess.run(
                    [os.path.join(folder, "cmake/configure"), "run"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S,
                    check=False)

            first = configure(native)
            self.assertEqual(first.returncode, 0, first.stderr)
            kept = os.path.join(native, "build/run/kept")
            Checkout.write(kept, "")
            self.assertEqual(configure(native).returncode, 0)
            self.assertTrue(os.path.exists(kept), "a build folder of this checkout stays")
            moved = os.path.join(parent, "moved")
            os.rename(native, moved)
            done = configure(moved)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(moved, "build/run/kept")))
            self.assertIn(f"CMAKE_HOME_DIRECTORY:INTERNAL={moved}\n", read(os.path.join(moved, "build/run/CMakeCache.txt")))

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

    def run_one_target(self, script, argument, *options, seeds=()):
        with tempfile.TemporaryDirectory() as directory:
            target = os.path.join(directory, "target")
            Checkout.write(target, script, 0o755)
            with zipfile.ZipFile(os.path.join(directory, "target_seed_corpus.zip"), "w") as packed:
                for seed in seeds:
                    packed.writestr(seed, seed)
            return subprocess.run([sys.executable, "-c", RUN_ONE_TARGET, target, str(argument), *options], capture_output=True, text=True, timeout=COMMAND_S,
                                  check=False, env={**os.environ, "PYTHONPATH": os.path.join(HOME, "bin/lib")})

    def test_25_a_fuzz_target_that_only_did_its_corpus_has_more_time_and_then_fails(self):
        for new, code, said in ((100, 0, "100 new inputs, 40 executions a second: nothing found\n"),
                                (99, 1, "FAILED: 99 new inputs try nothing, 100 are the least\n")):
            done = self.run_one_target(IDLE_TARGET, new)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stdout.endswith(said), done.stdout)

    def test_26_a_pass_over_the_seeds_of_a_fuzz_target_fails_unless_it_executed_all(self):
        for seeds, executed, code, said in ((("a", "b"), 2, 0, "2 inputs of the corpus: nothing found\n"),
                                            (("a", "b"), 1, 1, "FAILED: 1 of 2 inputs of the corpus were executed\n"),
                                            ((), 0, 1, "FAILED: 0 of 0 inputs of the corpus were executed\n")):
            done = self.run_one_target(PASS_TARGET, executed, "--runs", "0", seeds=seeds)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertTrue(done.stdout.endswith(said), done.stdout)

    def test_27_seeds_that_are_packed_again_are_the_same_bytes(self):
        archives = [path for module in ("native", "ray-plugin") for path in glob.glob(os.path.join(HOME, module, "fuzz/corpus/*_seed_corpus.zip"))]
        self.assertGreaterEqual(len(archives), 14)
        for path in archives:
            with self.subTest(path), tempfile.TemporaryDirectory() as directory:
                seeds, again = os.path.join(directory, "seeds"), os.path.join(directory, "again.zip")
                with zipfile.ZipFile(path) as packed:
                    packed.extractall(seeds)
                fuzzing.pack(seeds, again)
                with open(path, "rb") as old, open(again, "rb") as new:
                    self.assertEqual(old.read(), new.read())
