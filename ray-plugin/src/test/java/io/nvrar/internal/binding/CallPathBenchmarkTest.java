package io.nvrar.internal.binding;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Collection;
import org.junit.jupiter.api.Test;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;

class CallPathBenchmarkTest {
  @Test
  void everyBenchmarkOfTheCallPathRuns() throws Exception {
    Collection<RunResult> results =
        new Runner(
                new OptionsBuilder()
                    .include(CallPathBenchmark.class.getSimpleName())
                    // In this JVM: what counts is that they run, not how fast.
                    .forks(0)
                    .warmupIterations(1)
                    .warmupTime(TimeValue.milliseconds(50))
                    .measurementIterations(1)
                    .measurementTime(TimeValue.milliseconds(50))
                    .shouldFailOnError(true)
                    .build())
            .run();
    assertThat(results).hasSize(6);
    assertThat(results)
        .allSatisfy(result -> assertThat(result.getPrimaryResult().getScore()).isPositive());
  }
}
