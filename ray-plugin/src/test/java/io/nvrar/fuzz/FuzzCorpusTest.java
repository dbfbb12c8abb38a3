package io.nvrar.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every input that the fuzzers have kept, once more, without Jazzer. */
class FuzzCorpusTest {
  private static final Path CORPORA = Path.of("fuzz", "corpus");

  @ParameterizedTest
  @ValueSource(
      strings = {
        "io.nvrar.internal.wire.ConfigFuzzer",
        "io.nvrar.internal.channel.FrameFuzzer",
        "io.nvrar.internal.channel.HandshakeFuzzer",
        "io.nvrar.internal.channel.HubFuzzer",
        "io.nvrar.internal.wire.TicketFuzzer",
        "io.nvrar.internal.flight.FlightFileFuzzer",
        "io.nvrar.tuning.TuningFileFuzzer"
      })
  void whatWasFoundOnceIsNotThereAgain(String target) throws Exception {
    Class<?> fuzzer = Class.forName(target);
    Method run = fuzzer.getMethod("fuzzerTestOneInput", byte[].class);
    Map<String, byte[]> inputs = inputs(fuzzer.getSimpleName());
    assertThat(inputs).hasSizeGreaterThan(3);
    for (Map.Entry<String, byte[]> input : inputs.entrySet()) {
      try {
        run.invoke(null, (Object) input.getValue());
      } catch (InvocationTargetException e) {
        throw new AssertionError(input.getKey() + " breaks a property", e.getCause());
      }
    }
  }

  /** Seeds, and inputs that once broke a property, by their names. */
  private static Map<String, byte[]> inputs(String target) throws IOException {
    Map<String, byte[]> inputs = new TreeMap<>();
    try (FileSystem seeds =
        FileSystems.newFileSystem(CORPORA.resolve(target + "_seed_corpus.zip"))) {
      addFiles(seeds.getPath("/"), inputs);
    }
    Path found = CORPORA.resolve(target);
    if (Files.isDirectory(found)) {
      addFiles(found, inputs);
    }
    return inputs;
  }

  private static void addFiles(Path directory, Map<String, byte[]> inputs) throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      for (Path file : files.toList()) {
        inputs.put(file.toString(), Files.readAllBytes(file));
      }
    }
  }
}
