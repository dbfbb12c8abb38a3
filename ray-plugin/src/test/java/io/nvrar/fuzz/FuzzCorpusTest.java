package io.nvrar.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
    List<Path> inputs = inputs(CORPORA.resolve(fuzzer.getSimpleName()));
    assertThat(inputs).hasSizeGreaterThan(3);
    for (Path input : inputs) {
      try {
        run.invoke(null, (Object) Files.readAllBytes(input));
      } catch (InvocationTargetException e) {
        throw new AssertionError(input + " breaks a property", e.getCause());
      }
    }
  }

  private static List<Path> inputs(Path directory) throws IOException {
    try (Stream<Path> files = Files.list(directory)) {
      return files.toList();
    }
  }
}
