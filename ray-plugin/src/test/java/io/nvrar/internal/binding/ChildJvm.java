package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** A JVM of its own for what happens once per process. */
final class ChildJvm {
  private static final long LIMIT_SECONDS = 120;

  private final Process process;
  private final Path output;

  private ChildJvm(Process process, Path output) {
    this.process = process;
    this.output = output;
  }

  /**
   * Starts {@link LoaderProcess} without any native library but that of {@code nativeClassPath}.
   *
   * @param prefix the command to run java under, may be empty
   * @param options of the JVM
   */
  static ChildJvm start(
      Path scratch, List<String> prefix, Path nativeClassPath, List<String> options, String... args)
      throws IOException {
    String classes =
        Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator, -1))
            .filter(entry -> !new File(entry).getName().startsWith("ray-nvrar-native"))
            .filter(entry -> !new File(entry, TestLibrary.RESOURCE).exists())
            .collect(Collectors.joining(File.pathSeparator));
    List<String> command = new ArrayList<>(prefix);
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx64m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"));
    command.addAll(options);
    command.addAll(List.of("-cp", nativeClassPath + File.pathSeparator + classes));
    command.add(LoaderProcess.class.getName());
    command.addAll(List.of(args));
    Path output = Files.createTempFile(scratch, "jvm", ".log");
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
    builder.environment().remove("XDG_CACHE_HOME");
    return new ChildJvm(builder.start(), output);
  }

  /** Waits for its end and returns its lines, after checking the exit code. */
  String end(int expectedExitCode) throws Exception {
    boolean ended = process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS);
    if (!ended) {
      process.destroyForcibly();
    }
    String text = Files.readString(output, StandardCharsets.UTF_8);
    assertThat(ended).as("ended within %d s: %s", LIMIT_SECONDS, text).isTrue();
    assertThat(process.exitValue()).as(text).isEqualTo(expectedExitCode);
    return text;
  }
}
