package io.nvrar.support;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** A JVM of its own, for what happens once per process. */
public final class CudaJvm {
  private static final long LIMIT_SECONDS = 120;

  private final Process process;
  private final Path output;

  private CudaJvm(Process process, Path output) {
    this.process = process;
    this.output = output;
  }

  /** The folder with the stub's libcuda.so.1. */
  public static Path stub() {
    Path folder = Path.of(System.getProperty("nvrar.stub.cuda"));
    assertThat(folder.resolve("libcuda.so.1"))
        .as("the stub, which is built with the library")
        .exists();
    return folder;
  }

  /**
   * Starts a main class on the stub.
   *
   * @param environment what the stub is to do
   */
  public static CudaJvm onStub(
      Path scratch, Map<String, String> environment, Class<?> main, String... args)
      throws IOException {
    ProcessBuilder builder = java(scratch, main, args);
    builder.environment().put("LD_LIBRARY_PATH", stub().toString());
    builder.environment().remove("CUDA_VISIBLE_DEVICES");
    builder.environment().putAll(environment);
    return start(builder);
  }

  /**
   * Starts a main class on the driver of this JVM.
   *
   * @param scratch for its output, its temporary files and its home
   */
  public static CudaJvm start(Path scratch, Class<?> main, String... args) throws IOException {
    return start(java(scratch, main, args));
  }

  private static CudaJvm start(ProcessBuilder builder) throws IOException {
    Path output = Objects.requireNonNull(builder.redirectOutput().file()).toPath();
    return new CudaJvm(builder.start(), output);
  }

  // Without Ray, whose logger speaks on standard output where the tests run beside it.
  private static String classPath() {
    return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(entry -> !entry.endsWith("ray_dist.jar"))
        .collect(Collectors.joining(File.pathSeparator));
  }

  private static ProcessBuilder java(Path scratch, Class<?> main, String... args)
      throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "--enable-native-access=ALL-UNNAMED",
            "-Djava.io.tmpdir=" + scratch,
            "-Duser.home=" + scratch,
            "-cp",
            classPath(),
            main.getName()));
    command.addAll(List.of(args));
    Path output = Files.createTempFile(scratch, "jvm", ".log");
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
    builder.environment().remove("XDG_CACHE_HOME");
    return builder;
  }

  /** Waits for its end and returns its lines, after checking the exit code. */
  public String end(int expectedExitCode) throws Exception {
    boolean ended = process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS);
    if (!ended) {
      process.destroyForcibly();
    }
    // Without what SLF4J says where there is no logger.
    String text =
        Files.readString(output, StandardCharsets.UTF_8)
            .lines()
            .filter(line -> !line.startsWith("SLF4J: "))
            .map(line -> line + "\n")
            .collect(Collectors.joining());
    assertThat(ended).as("ended within %d s: %s", LIMIT_SECONDS, text).isTrue();
    assertThat(process.exitValue()).as(text).isEqualTo(expectedExitCode);
    return text;
  }
}
