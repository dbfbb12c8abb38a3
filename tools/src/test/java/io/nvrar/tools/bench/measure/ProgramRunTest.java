package io.nvrar.tools.bench.measure;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.AllReduceFusion.Form;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.Implementation;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import io.nvrar.tools.bench.setup.TimedCollective;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class ProgramRunTest {
  private static final Settings TWO_RANKS = TestSettings.onGpus(2, 0, -1, 30);

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "TORCH_ONE_SHOT | ALL_GATHER | it is measured in all-reduce only",
        "TORCH_TWO_SHOT | REDUCE_SCATTER | it is measured in all-reduce only",
        "TORCH_REDUCE_SCATTER | ALL_GATHER | it is measured in reduce-scatter only",
        "TORCH_LOW_CONTENTION | ALL_REDUCE | it is measured in all-gather, reduce-scatter only",
        "NCCL | BROADCAST | it is measured in all-reduce, all-gather, reduce-scatter only",
      })
  void controlThatHasNoSuchCollectiveIsLeftOutAndSaysWhichItHas(
      Implementation one, TimedCollective collective, String sentence) {
    assertThat(ProgramRun.leftOut(Path.of("."), one, TestSettings.of(TWO_RANKS, collective)))
        .isEqualTo(sentence);
  }

  @ParameterizedTest
  @EnumSource(
      value = Implementation.class,
      names = {"NCCL", "TORCH_ONE_SHOT", "TORCH_TWO_SHOT"})
  void controlIsLeftOutWhereNoModeIsWantedThatItHas(Implementation one) {
    Settings others =
        TestSettings.onGpus(
            List.of(Mode.GRAPH_COMPUTE, Mode.EAGER_COMPUTE, Mode.GRAPH_COLD), 2, 0, -1, 30);
    assertThat(ProgramRun.leftOut(Path.of("/nowhere"), one, others))
        .isEqualTo("it is measured in graph and eager only");
    for (Mode its : List.of(Mode.GRAPH, Mode.EAGER)) {
      Settings with = TestSettings.onGpus(List.of(Mode.GRAPH_COLD, its), 2, 0, -1, 30);
      assertThat(ProgramRun.leftOut(Path.of("/nowhere"), one, with)).endsWith(" is not here");
    }
  }

  @ParameterizedTest
  @CsvSource({"NCCL, ALL_GATHER", "NCCL, REDUCE_SCATTER", "TORCH_LOW_CONTENTION, ALL_GATHER"})
  void controlThatHasTheCollectiveIsMissingOnlyWithItsScript(
      Implementation one, TimedCollective collective) {
    assertThat(ProgramRun.leftOut(Path.of("/nowhere"), one, TestSettings.of(TWO_RANKS, collective)))
        .isEqualTo("/nowhere/native/bench/peers_bench.py is not here");
  }

  @ParameterizedTest
  @CsvSource({"STUDY", "TORCH_ONE_SHOT"})
  void whatEndsAt8MegabytesIsLeftOutWhereAllSizesAreLarger(Implementation one) {
    Settings upTo64 = TWO_RANKS.ofSizes(1 << 10, 64 << 20, 2);
    assertThat(ProgramRun.leftOut(Path.of("/nowhere"), one, upTo64)).doesNotContain("up to");
    assertThat(ProgramRun.leftOut(Path.of("/nowhere"), one, upTo64.ofSizes(16 << 20, 64 << 20, 2)))
        .isEqualTo("it is measured up to 8388608 bytes only");
  }

  @Test
  void theSizesOfFusedAllReducesAreThoseOfTheirRows() {
    Settings upTo64 = TWO_RANKS.ofSizes(16 << 20, 64 << 20, 2); // which are not for them
    for (int rows : List.of(1, 256)) {
      Settings some =
          TestSettings.withFused(upTo64, new FusedRows(Form.BIAS, 16_384, List.of(512, rows)));
      assertThat(ProgramRun.leftOut(Path.of("/nowhere"), Implementation.TORCH_ONE_SHOT, some))
          .doesNotContain("up to");
    }
    Settings none =
        TestSettings.withFused(TWO_RANKS, new FusedRows(Form.BIAS, 16_384, List.of(512, 257)));
    assertThat(ProgramRun.leftOut(Path.of("/nowhere"), Implementation.TORCH_ONE_SHOT, none))
        .isEqualTo("it is measured up to 8388608 bytes only");
  }

  @Test
  void implementationsThatHaveNoSuchFusedAllReduceAreLeftOut() {
    Path nowhere = Path.of("/nowhere");
    assertThat(ProgramRun.leftOut(nowhere, Implementation.CPP_APART, TWO_RANKS))
        .isEqualTo("it is measured with --fused only");
    FusedRows longRows = new FusedRows(Form.RMS_NORM, 8192, List.of(1, 64));
    Settings norms = TestSettings.withFused(TWO_RANKS, longRows);
    for (Implementation one :
        List.of(
            Implementation.CPP,
            Implementation.CPP_APART,
            Implementation.STUDY,
            Implementation.JAVA)) {
      assertThat(ProgramRun.leftOut(nowhere, one, norms)).isEmpty();
    }
    for (FusedRows others :
        List.of(
            new FusedRows(Form.RMS_FOLD, 8192, List.of(1)),
            new FusedRows(Form.RMS_NORM, 2048, List.of(1)),
            new FusedRows(Form.RMS_NORM, 4096, List.of(64)))) {
      Settings settings = TestSettings.withFused(TWO_RANKS, others);
      assertThat(ProgramRun.leftOut(nowhere, Implementation.STUDY, settings))
          .isEqualTo("its fused kernels are for norms of up to 32 rows of 4096 or 8192 elements");
    }
  }

  @Test
  void programGetsTheCollectiveAndNoNvlinkMulticast(@TempDir Path directory) throws Exception {
    Path said = directory.resolve("said");
    Path program =
        Files.writeString(
            directory.resolve("nvrar_bench"),
            String.format(
                Locale.ROOT,
                """
            #!/bin/sh
            { echo "$@"; env; } > "%s"
            while [ "$1" != --json ]; do shift; done
            echo '{"kind": "run"}' > "$2"
            """,
                said),
            UTF_8);
    Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"));
    String before = System.getProperty("nvrar.bench.programs");
    System.setProperty("nvrar.bench.programs", directory.toString());
    try {
      Settings cold =
          TestSettings.of(
              TestSettings.onGpus(List.of(Mode.GRAPH_COLD), 2, 0, -1, 30),
              TimedCollective.ALL_GATHER);
      assertThat(ProgramRun.cpp(directory, cold, false)).hasSize(1);
    } finally {
      if (before == null) {
        System.clearProperty("nvrar.bench.programs");
      } else {
        System.setProperty("nvrar.bench.programs", before);
      }
    }
    List<String> lines = Files.readAllLines(said, UTF_8);
    assertThat(lines.get(0)).contains("--mode graph-cold").contains("--collective all-gather");
    assertThat(lines)
        .contains(
            "NCCL_NVLS_ENABLE=0", "TORCH_SYMM_MEM_DISABLE_MULTICAST=1", "NVSHMEM_DISABLE_NVLS=1");
  }

  /** What the user is told while a stand-in for python3 runs with these last commands. */
  private static String toldBy(Path directory, String last) throws Exception {
    Path python =
        Files.writeString(
            directory.resolve("python3"),
            String.format(
                Locale.ROOT,
                """
            #!/bin/sh
            echo "peers_bench: torch-two-shot, 1024 bytes, is left out: RuntimeError: no peers" >&2
            while [ "$1" != --json ]; do shift; done
            echo '{"kind": "run"}' > "$2"
            %s
            """,
                last),
            UTF_8);
    Files.setPosixFilePermissions(python, PosixFilePermissions.fromString("rwx------"));
    StringWriter told = new StringWriter();
    try {
      ProgramRun.torch(python.toString(), directory, TWO_RANKS, new PrintWriter(told, true));
    } catch (IOException e) {
      told.append("failed: ").append(e.getMessage());
    }
    return told.toString();
  }

  @Test
  void controlThatTheScriptLeavesOutIsToldThoughTheScriptSucceeds(@TempDir Path directory)
      throws Exception {
    assertThat(toldBy(directory, "exit 0"))
        .isEqualTo(
            "nvrar: peers_bench: torch-two-shot, 1024 bytes, is left out: RuntimeError: no peers\n");
  }

  @ParameterizedTest
  @ValueSource(strings = {"TimeoutError: rank 1 does not come", "peers_bench: no GPU 7"})
  void scriptThatFailsLaterIsReportedWithItsErrorAndNotWithWhatItLeftOut(
      String error, @TempDir Path directory) throws Exception {
    assertThat(toldBy(directory, "echo '" + error + "' >&2; exit 1").lines())
        .satisfiesExactly(
            line -> assertThat(line).endsWith("is left out: RuntimeError: no peers"),
            line -> assertThat(line).startsWith("failed: ").endsWith(": " + error));
  }

  @Test
  void pythonIsAskedForPytorchWithoutNvlinkMulticast(@TempDir Path directory) throws Exception {
    Path python =
        Files.writeString(
            directory.resolve("python3"),
            """
            #!/bin/sh
            test "$NCCL_NVLS_ENABLE$TORCH_SYMM_MEM_DISABLE_MULTICAST$NVSHMEM_DISABLE_NVLS" = 011
            """,
            UTF_8);
    Files.setPosixFilePermissions(python, PosixFilePermissions.fromString("rwx------"));
    assertThat(PythonTorch.problem(python.toString())).isEmpty();
    assertThat(PythonTorch.problem("false")).contains("has no PyTorch");
  }
}
