package io.nvrar.tools.bench.setup;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion.Form;
import io.nvrar.Backend;
import io.nvrar.DataType;
import io.nvrar.GroupConfig;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** That all programs make the group that was asked for. */
class SettingsTest {
  private static Settings settings(boolean exclusive, boolean programmaticLaunch) {
    return settings(exclusive, programmaticLaunch, 0);
  }

  private static Settings settings(boolean exclusive, boolean programmaticLaunch, int links) {
    return new Settings(
        Backend.CUDA,
        Mode.OF_GPUS,
        0,
        MemoryProvider.IPC,
        exclusive,
        programmaticLaunch,
        TimedCollective.ALL_REDUCE,
        2,
        1,
        links,
        DataType.BFLOAT16,
        ReduceOp.SUM,
        Algorithm.AUTO,
        0,
        1024,
        4096,
        4,
        0,
        -1,
        30,
        1 << 20,
        1,
        null);
  }

  @Test
  void groupFromJavaHasWhatWasGiven() {
    GroupConfig config = settings(false, false).groupConfig();
    assertThat(config)
        .isEqualTo(
            GroupConfig.builder()
                .backend(Backend.CUDA)
                .cuda(cuda -> cuda.memory(MemoryProvider.IPC))
                .ringBytes(1 << 20)
                .gpusPerNode(1)
                .build());
    assertThat(settings(true, false).groupConfig())
        .isEqualTo(config.toBuilder().cuda(cuda -> cuda.exclusive(true)).build());
    assertThat(settings(false, true).groupConfig())
        .isEqualTo(config.toBuilder().cuda(cuda -> cuda.programmaticLaunch(true)).build());
  }

  @ParameterizedTest
  @CsvSource({"1024, 40", "8388608, 40", "16777216, 20", "67108864, 5", "1073741824, 5"})
  void largeCallsOnGpusAreFewerInABatchUnlessTheirNumberIsGiven(long bytes, int calls) {
    assertThat(settings(false, false).iterationsOf(bytes)).isEqualTo(calls);
    assertThat(TestSettings.onGpus(2, 30, -1, 30).iterationsOf(bytes)).isEqualTo(30);
  }

  @Test
  void otherProcessesAreToldWhatWasGiven() {
    assertThat(settings(false, false).arguments())
        .doesNotContain("--exclusive", "--programmatic-launch", "--links");
    assertThat(settings(false, false, 2).arguments()).containsSequence("--links", "2");
    assertThat(settings(true, false).arguments())
        .containsSequence("--exclusive", "1")
        .doesNotContain("--programmatic-launch");
    assertThat(settings(false, true).arguments())
        .containsSequence("--programmatic-launch", "1")
        .doesNotContain("--exclusive");
    assertThat(settings(true, true).ofSizes(8, 16, 2).arguments())
        .containsSequence("--exclusive", "1")
        .containsSequence("--programmatic-launch", "1");
    assertThat(settings(false, false).arguments())
        .contains("--min", "--max", "--factor")
        .doesNotContain("--fused", "--form", "--hidden", "--rows");
    FusedRows rows = new FusedRows(Form.RMS_NORM, 4096, List.of(1, 32));
    Settings fused = TestSettings.withFused(settings(false, false), rows);
    assertThat(fused.arguments())
        .containsSequence(
            "--fused", "1", "--form", "rms-norm", "--hidden", "4096", "--rows", "1,32")
        .doesNotContain("--min", "--max", "--factor");
    assertThat(fused.name()).isEqualTo("fused-rms-norm-4096");
    assertThat(settings(false, false).name()).isEqualTo("all-reduce");
  }
}
