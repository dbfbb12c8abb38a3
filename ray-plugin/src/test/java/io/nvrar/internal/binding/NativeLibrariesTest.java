package io.nvrar.internal.binding;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.BackendUnavailableException;
import io.nvrar.internal.loading.LoadAttempts;
import io.nvrar.internal.loading.LoaderSettings;
import io.nvrar.standalone.OtherHost;
import io.nvrar.support.ChildJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@Tag("slow")
class NativeLibrariesTest {
  private static final String SENTENCE = "the native library libnvrar.so cannot be loaded: ";

  @TempDir private Path scratch;

  @Test
  void thisBuildsLibraryLoads() {
    assertThatCode(NativeLibraries::ensureAvailable).doesNotThrowAnyException();
    assertThat(NativeLibraries.isAvailable()).isTrue();
    assertThat(NativeLibraries.unavailabilityCause()).isNull();
    assertThat(NativeCommunicator.buildId()).isNotBlank();
  }

  @Test
  void eightJvmsThatStartTogetherAllLoadOneExtractedFile() throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    Path cache = scratch.resolve("cache");
    String startAt = String.valueOf(System.currentTimeMillis() + 3000);
    List<ChildJvm> jvms = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      jvms.add(
          LoaderJvm.start(List.of(), classPath, List.of("-Dnvrar.native.cache=" + cache), startAt));
    }
    List<String> outputs = new ArrayList<>();
    for (ChildJvm jvm : jvms) {
      outputs.add(jvm.end(0));
    }
    assertThat(outputs)
        .allSatisfy(output -> assertThat(output).contains("barrier #1", "from " + cache));
    assertThat(outputs.stream().distinct()).as("one file for all").hasSize(1);
    try (Stream<Path> all = Files.walk(cache)) {
      assertThat(all.filter(Files::isRegularFile)).hasSize(1);
    }
  }

  @Test
  void aCorruptedFileInTheCacheIsReplacedBeforeItIsLoaded() throws Exception {
    byte[] library = TestLibrary.bytes();
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), library);
    Path cache = scratch.resolve("cache");
    List<String> options = List.of("-Dnvrar.native.cache=" + cache);
    LoaderJvm.start(List.of(), classPath, options).end(0);
    Path file;
    try (Stream<Path> all = Files.walk(cache)) {
      file = all.filter(Files::isRegularFile).findFirst().orElseThrow();
    }
    Files.delete(file);
    Files.write(file, new byte[library.length]);
    assertThat(LoaderJvm.start(List.of(), classPath, options).end(0)).contains("build ");
    assertThat(file).hasBinaryContent(library);
  }

  @Test
  void aCacheThatCannotBeWrittenFallsBackToTheTemporaryDirectory() throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    Path file = Files.createFile(scratch.resolve("file"));
    Path temp = Files.createDirectory(scratch.resolve("tmp"));
    List<String> options =
        List.of("-Dnvrar.native.cache=" + file.resolve("below"), "-Djava.io.tmpdir=" + temp);
    assertThat(LoaderJvm.start(List.of(), classPath, options).end(0))
        .contains("from " + temp.resolve("nvrar-"));
  }

  @Test
  void aReadOnlyVolumeFallsBackToTheTemporaryDirectory() throws Exception {
    assertThat(loadWithCacheMounted("ro")).contains("from " + scratch.resolve("tmp/nvrar-"));
  }

  @Test
  void aVolumeWithoutExecutionFallsBackToTheTemporaryDirectory() throws Exception {
    assertThat(loadWithCacheMounted("noexec")).contains("from " + scratch.resolve("tmp/nvrar-"));
  }

  @Test
  void aFullDiskIsWhatTheMessageNamesAndTheSameProcessLoadsOnceThereIsRoom() throws Exception {
    Path volume = Files.createDirectory(scratch.resolve("volume"));
    List<String> said =
        loadWithMounted(
                "size=1m",
                volume,
                "HOME=" + scratch,
                List.of(
                    "-Dnvrar.native.cache=" + volume.resolve("cache"),
                    "-Djava.io.tmpdir=" + volume),
                LoaderProcess.FULL,
                volume.toString())
            .lines()
            .filter(line -> !line.startsWith("[main] WARN "))
            .toList();
    assertThat(said.get(0))
        .matches(
            SENTENCE
                + "it cannot be extracted there \\(No space left on device\\): "
                + volume
                + "/nvrar-.*/libnvrar.so");
    assertThat(said.get(1)).as("files left").isEqualTo("left []");
    assertThat(said.get(2)).startsWith("build ");
    assertThat(said.get(said.size() - 1)).startsWith("from " + volume.resolve("cache"));
  }

  @Test
  void aUsersCacheThatCannotBeUsedKeepsNobodyWhoNamesAnotherFromLoading() throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    Path cache = scratch.resolve("cache");
    Path temp = Files.createDirectory(scratch.resolve("tmp"));
    List<String> options =
        List.of("-Dnvrar.native.cache=" + cache, "-Djava.io.tmpdir=" + temp, "-Duser.home=" + temp);
    // Where no name fits into the system's longest path; JNA goes there by itself.
    List<String> full = List.of("env", "XDG_CACHE_HOME=" + directoryWithoutRoomForNames());
    assertThat(LoaderJvm.start(full, classPath, options).end(0)).contains("from " + cache);
    Path file = Files.createFile(scratch.resolve("file"));
    List<String> noDirectory = List.of("env", "XDG_CACHE_HOME=" + file);
    assertThat(LoaderJvm.start(noDirectory, classPath, options).end(0)).contains("from " + cache);
    try (Stream<Path> all = Files.walk(cache)) {
      assertThat(all.filter(Files::isRegularFile)).as("what stays").hasSize(1);
    }
  }

  @Test
  void aUsersCacheWithoutExecutionKeepsNobodyWhoNamesAnotherFromLoading() throws Exception {
    Path volume = Files.createDirectory(scratch.resolve("volume"));
    Path cache = scratch.resolve("cache");
    assertThat(
            loadWithMounted(
                "noexec", volume, "XDG_CACHE_HOME=" + volume, "-Dnvrar.native.cache=" + cache))
        .contains("from " + cache);
  }

  @Test
  void aDirectoryOfJnasThatCannotBeUsedIsWhatTheMessageNames() throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    Path file = Files.createFile(scratch.resolve("file"));
    Path cache = scratch.resolve("cache");
    List<String> options = List.of("-Dnvrar.native.cache=" + cache, "-Djna.tmpdir=" + file);
    assertThat(LoaderJvm.start(List.of(), classPath, options).end(LoaderProcess.UNAVAILABLE))
        .startsWith(
            SENTENCE
                + "JNA cannot unpack and load its own library in this directory: "
                + file
                + "; name a writable directory that is not mounted noexec by -Djna.tmpdir\n")
        .contains("tried " + file + ": JNA")
        .doesNotContain(cache.toString());
  }

  /** A directory of which {@code JNA/temp} can be made, but no file in that. */
  private Path directoryWithoutRoomForNames() throws IOException {
    Path directory = Files.createDirectory(scratch.resolve("long"));
    int longest = 4095 - "/JNA/temp".length() - 2;
    while (directory.toString().length() < longest) {
      int room = longest - directory.toString().length() - 1;
      directory = directory.resolve("d".repeat(Math.max(1, Math.min(room, 200))));
    }
    return Files.createDirectories(directory);
  }

  @Test
  void aMissingLibraryIsOneSentenceAndThePath() {
    Path dir = scratch.resolve("nowhere");
    assertThatThrownBy(() -> open(settings(dir, scratch, scratch, "linux-x86_64"), scratch))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessage(
            SENTENCE
                + "there is no such file: "
                + dir.resolve("libnvrar.so")
                + System.lineSeparator()
                + "  tried "
                + dir.resolve("libnvrar.so")
                + ": there is no such file");
  }

  @Test
  void aMissingJarSaysWhatToAdd() {
    assertThatThrownBy(() -> open(settings(null, scratch, scratch, "linux-x86_64"), scratch))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageStartingWith(SENTENCE + "the jar ray-nvrar-native is missing")
        .hasMessageContaining("class path:" + TestLibrary.RESOURCE);
  }

  @Test
  void aProcessThatCanOpenNoFileIsToldThatAndNotThatAJarIsMissing() throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    Path jar = scratch.resolve("native.jar");
    try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar))) {
      out.putNextEntry(new ZipEntry(TestLibrary.RESOURCE));
      out.write(TestLibrary.bytes());
    }
    String said =
        LoaderJvm.start(
                List.of("sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"),
                Files.createDirectory(scratch.resolve("nothing")),
                List.of("-Dnvrar.native.cache=" + scratch.resolve("cache")),
                "exhausted",
                classPath.toString(),
                jar.toString())
            .end(0);
    assertThat(said.lines())
        .satisfiesExactly(
            line -> assertThat(line).startsWith(SENTENCE + "the jar ray-nvrar-native is missing"),
            line ->
                assertThat(line)
                    .startsWith(SENTENCE + "it cannot be read (")
                    .contains("Too many open files"),
            line ->
                assertThat(line)
                    .startsWith(SENTENCE + "it cannot be read (")
                    .contains("Too many open files"));
  }

  @Test
  void everyPathAndEveryCauseIsInTheText() throws IOException {
    Path file = Files.createFile(scratch.resolve("file"));
    ClassLoader resources =
        TestLibrary.classLoader(scratch.resolve("classes"), "no library".getBytes(UTF_8));
    Path temp = Files.createDirectory(scratch.resolve("tmp"));
    LoadAttempts attempts = new LoadAttempts();
    assertThatThrownBy(
            () ->
                NativeLibraries.open(
                    settings(null, file.resolve("below"), temp, "linux-x86_64"),
                    resources,
                    attempts))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageStartingWith(SENTENCE)
        .hasMessageContaining("tried " + file.resolve("below"))
        .hasMessageContaining("it cannot be extracted there")
        .hasMessageContaining("tried " + temp.resolve("nvrar-tester"))
        .hasMessageContaining("file too short")
        .hasCauseInstanceOf(IOException.class);
  }

  @Test
  void aLibraryOfAnotherAbiVersionNamesBothVersions() throws Exception {
    byte[] other =
        TestLibrary.compile(scratch, "unsigned nvrar_abi_version(void) { return 999; }\n");
    Path dir = Files.createDirectory(scratch.resolve("other"));
    Files.write(dir.resolve("libnvrar.so"), other);
    assertThatThrownBy(() -> open(settings(dir, scratch, scratch, "linux-x86_64"), scratch))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageStartingWith(
            SENTENCE + "it has ABI version 999 and this jar needs " + NvrarBinding.ABI_VERSION)
        .hasMessageContaining(dir.resolve("libnvrar.so").toString());
  }

  @Test
  void aLibraryThatLacksAFunctionIsRefusedWhenItIsLoaded() throws Exception {
    byte[] partial =
        TestLibrary.compile(
            scratch,
            String.format(
                Locale.ROOT,
                "unsigned nvrar_abi_version(void) { return %d; }\n",
                NvrarBinding.ABI_VERSION));
    Path dir = Files.createDirectory(scratch.resolve("partial"));
    Files.write(dir.resolve("libnvrar.so"), partial);
    assertThat(
            LoaderJvm.start(List.of(), dir, List.of("-Dnvrar.native.dir=" + dir))
                .end(LoaderProcess.UNAVAILABLE))
        .contains("it lacks a function of its own ABI version", "nvrar_");
  }

  @Test
  void aLibraryThatIsNoneSaysWhatTheLinkerSaid() throws IOException {
    Path dir = Files.createDirectory(scratch.resolve("garbage"));
    Files.write(dir.resolve("libnvrar.so"), new byte[4096]);
    assertThatThrownBy(() -> open(settings(dir, scratch, scratch, "linux-x86_64"), scratch))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageStartingWith(SENTENCE + "it cannot be linked")
        .hasMessageContaining("invalid ELF header")
        .hasMessageNotContaining("in resource path (");
  }

  @Test
  void anUnsupportedPlatformIsRefusedInOneSentenceBeforeJnaFails() throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    assertThat(
            LoaderJvm.start(List.of(), classPath, List.of("-Dos.arch=aarch64"))
                .end(LoaderProcess.UNAVAILABLE)
                .strip())
        .isEqualTo(
            SENTENCE
                + "it is built for linux-x86_64 and this JVM runs on linux-aarch64; there is none for it");
  }

  @Test
  void anUnsupportedPlatformIsNamed() {
    assertThatThrownBy(() -> open(settings(null, scratch, scratch, "mac-os-x-aarch64"), scratch))
        .isInstanceOf(BackendUnavailableException.class)
        .hasMessageStartingWith(
            SENTENCE
                + "it is built for linux-x86_64 and this JVM runs on mac-os-x-aarch64; there is none for it");
  }

  private static void open(LoaderSettings settings, Path classPath) throws IOException {
    NativeLibraries.open(settings, TestLibrary.emptyClassLoader(classPath), new LoadAttempts());
  }

  private static LoaderSettings settings(
      @Nullable Path nativeDir, Path cache, Path temp, String platform) {
    return new LoaderSettings(
        nativeDir == null ? null : nativeDir.toString(),
        cache.toString(),
        null,
        temp,
        "tester",
        platform);
  }

  private String loadWithCacheMounted(String option) throws Exception {
    Path cache = Files.createDirectory(scratch.resolve("volume"));
    return loadWithMounted(option, cache, "NOTHING=0", "-Dnvrar.native.cache=" + cache);
  }

  /** In a mount namespace of its own, so that nothing of it is seen outside or stays. */
  private String loadWithMounted(String option, Path volume, String variable, String property)
      throws Exception {
    Path temp = Files.createDirectory(scratch.resolve("tmp"));
    return loadWithMounted(option, volume, variable, List.of(property, "-Djava.io.tmpdir=" + temp));
  }

  private String loadWithMounted(
      String option, Path volume, String variable, List<String> properties, String... arguments)
      throws Exception {
    Path classPath = TestLibrary.classPath(scratch.resolve("classes"), TestLibrary.bytes());
    String mount = "mount -t tmpfs -o mode=700," + option + " none '" + volume + "'";
    OtherHost.require("unshare", "-rm", "sh", "-c", mount);
    return LoaderJvm.start(
            List.of("env", variable, "unshare", "-rm", "sh", "-c", mount + " && exec \"$@\"", "sh"),
            classPath,
            properties,
            arguments)
        .end(0);
  }
}
