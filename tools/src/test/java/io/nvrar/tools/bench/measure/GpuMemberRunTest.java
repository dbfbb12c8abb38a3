package io.nvrar.tools.bench.measure;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import io.nvrar.AllReduceFusion;
import io.nvrar.AllReduceFusion.Form;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.device.Devices;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.bench.measure.CpuMemberRun.Batch;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.FusedRows;
import io.nvrar.tools.bench.setup.Mode;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** The measurement of GPUs with a group of one on the host, which has graphs and events, too. */
class GpuMemberRunTest {
  private static final Settings SETTINGS = TestSettings.onGpus(1, 3, 0, 4);

  /** What a call does besides, submitted to its stream. */
  private interface Damage {
    void submit(DeviceBuffer recv, DeviceStream stream);
  }

  private static List<Batch> measure(Damage damage) throws IOException {
    return measure(SETTINGS, damage, (which, result, stream) -> () -> {});
  }

  private static List<Batch> measure(
      Settings settings, Damage damage, GpuMemberRun.BetweenFactory kernels) throws IOException {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    GroupTicket ticket = Groups.createTicket("bench", 1, config, "127.0.0.1");
    Path file = SpinBarrier.create(1);
    try (CollectiveGroup group = Groups.join(ticket, 0)) {
      Object damaging =
          Proxy.newProxyInstance(
              GpuMemberRunTest.class.getClassLoader(),
              new Class<?>[] {CollectiveGroup.class},
              (proxy, method, arguments) -> {
                try {
                  Object result = method.invoke(group, arguments);
                  if (method.getName().equals("allReduce")) {
                    boolean fused = arguments[1] instanceof AllReduceFusion;
                    DeviceBuffer recv =
                        fused
                            ? ((AllReduceFusion) arguments[1]).output()
                            : (DeviceBuffer) arguments[1];
                    damage.submit(recv, (DeviceStream) arguments[fused ? 3 : 4]);
                  }
                  return result;
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                }
              });
      return new GpuMemberRun(
              (CollectiveGroup) damaging, settings, SpinBarrier.open(file, 0, 1), kernels)
          .run();
    } finally {
      Files.delete(file);
    }
  }

  @Test
  void rightResultsCountNoWrongElementAndEveryModeHasItsBatches() throws IOException {
    List<Batch> batches = measure((recv, stream) -> {});
    // Two sizes; five modes and the kernel between the calls of three of them; four batches each.
    assertThat(batches).hasSize(2 * 8 * 4);
    assertThat(batches).allSatisfy(batch -> assertThat(batch.wrong()).isZero());
    List<JsonObject> rows = JavaRun.rows(SETTINGS, List.of(batches));
    assertThat(rows).hasSize(2 * 5);
    assertThat(rows.stream().map(row -> shape(row, "mode")).distinct())
        .containsExactly("graph", "eager", "graph-compute", "eager-compute", "graph-cold");
    assertThat(rows).allSatisfy(row -> assertThat(shape(row, "backend")).isEqualTo("cuda"));
  }

  @Test
  void oneDamagedElementIsCountedInGraphsAndEagerly() throws IOException {
    List<Batch> batches;
    try (DeviceBuffer nan = Devices.open(Backend.CPU, 0).allocate(DataType.BFLOAT16, 1)) {
      nan.copyFrom(new float[] {Float.NaN});
      batches = measure((recv, stream) -> stream.copy(nan, recv.slice(recv.count() - 1, 1)));
    }
    List<JsonObject> rows = JavaRun.rows(SETTINGS, List.of(batches));
    assertThat(rows).hasSize(2 * 5);
    assertThat(rows).allSatisfy(row -> assertThat(row.get("wrong").getAsLong()).isEqualTo(1));
  }

  @ParameterizedTest
  @EnumSource(Form.class)
  void fusedAllReducesOfEveryFormAreRightAndOneDamagedElementIsCounted(Form form)
      throws IOException {
    Settings settings = TestSettings.withFused(SETTINGS, new FusedRows(form, 104, List.of(1, 3)));
    List<JsonObject> right =
        JavaRun.rows(
            settings,
            List.of(measure(settings, (recv, stream) -> {}, (which, result, on) -> () -> {})));
    assertThat(right).hasSize(2 * 5);
    assertThat(right)
        .allSatisfy(row -> assertThat(row.get("wrong").getAsLong()).isZero())
        .allSatisfy(row -> assertThat(shape(row, "name")).isEqualTo(settings.name()));
    assertThat(right.stream().map(row -> shape(row, "bytes")).distinct())
        .containsExactly("208", "624");
    try (DeviceBuffer nan = Devices.open(Backend.CPU, 0).allocate(DataType.BFLOAT16, 1)) {
      nan.copyFrom(new float[] {Float.NaN});
      List<Batch> damaged =
          measure(
              settings,
              (recv, stream) -> stream.copy(nan, recv.slice(recv.count() - 1, 1)),
              (which, result, on) -> () -> {});
      assertThat(JavaRun.rows(settings, List.of(damaged)))
          .allSatisfy(row -> assertThat(row.get("wrong").getAsLong()).isEqualTo(1));
    }
  }

  @ParameterizedTest
  @CsvSource({
    "GRAPH_COLD, call call SWEEP SWEEP SWEEP call SWEEP call",
    "GRAPH_COMPUTE, call call COMPUTE COMPUTE call COMPUTE call COMPUTE"
  })
  void sweepComesBeforeEachCallAndTheComputingBehindIt(Mode mode, String order) throws IOException {
    List<String> submitted = new ArrayList<>();
    measure(
        TestSettings.onGpus(List.of(mode), 1, 2, 0, 1),
        (recv, stream) -> submitted.add("call"),
        (which, result, stream) -> () -> submitted.add(which.toString()));
    // The two calls that load kernels, the graph of the kernel alone, and that of both.
    assertThat(submitted.subList(0, 8)).containsExactly(order.split(" ", -1));
  }

  // Eagerly it would be the time of the host, which submits kernels more slowly than so short a
  // kernel runs.
  @ParameterizedTest
  @EnumSource(
      value = Mode.class,
      names = {"GRAPH_COMPUTE", "EAGER_COMPUTE", "GRAPH_COLD"})
  void kernelAloneIsTimedInAGraphWhateverTheMode(Mode mode) throws IOException {
    List<String> submitted = new ArrayList<>();
    measure(
        TestSettings.onGpus(List.of(mode), 1, 2, 0, 4).ofSizes(1024, 1024, 2),
        (recv, stream) -> submitted.add("call"),
        (which, result, stream) -> () -> submitted.add("kernel"));
    // Behind the two calls that load kernels every call has its kernel, and alone the kernel is
    // submitted for the graph of two and no more.
    assertThat(Collections.frequency(submitted, "kernel") - 2)
        .isEqualTo(Collections.frequency(submitted, "call") - 2);
  }

  @Test
  void timeOfTheKernelBetweenCallsIsSubtractedAndTheGroupsCostIsTheGreatest() {
    List<Batch> ofRank0 =
        List.of(
            new Batch(100 << 20, ResultLine.OUT_OF_PLACE, GpuMember.CREATE, 2e6, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-compute-alone", 2, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-compute", 5, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-cold-alone", 40, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-cold", 44, 0));
    List<Batch> ofRank1 =
        List.of(
            new Batch(104 << 20, ResultLine.OUT_OF_PLACE, GpuMember.CREATE, 1e6, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-compute-alone", 1.5, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-compute", 6, 7),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-cold-alone", 41, 0),
            new Batch(1024, ResultLine.OUT_OF_PLACE, "graph-cold", 43, 0));
    List<JsonObject> rows = JavaRun.rows(SETTINGS, List.of(ofRank0, ofRank1));
    assertThat(rows).hasSize(3);
    assertThat(median(rows.get(2))).isEqualTo(44 - 41);
    assertThat(rows.get(0).get("kind").getAsString()).isEqualTo("group");
    assertThat(median(rows.get(0))).isEqualTo(2e6);
    assertThat(rows.get(0).get("device_bytes").getAsLong()).isEqualTo(104 << 20);
    assertThat(median(rows.get(1))).isEqualTo(6 - 2);
    assertThat(rows.get(1).get("wrong").getAsLong()).isEqualTo(7);
  }

  private static double median(JsonObject row) {
    return row.get("median").getAsDouble();
  }

  private static String shape(JsonObject row, String field) {
    return row.getAsJsonObject("shape").get(field).getAsString();
  }

  @Test
  void nobodyPassesTheBarrierBeforeTheLastHasCome() throws Exception {
    Path file = SpinBarrier.create(2);
    try {
      SpinBarrier first = SpinBarrier.open(file, 0, 2);
      SpinBarrier second = SpinBarrier.open(file, 1, 2);
      CompletableFuture<Void> passed = CompletableFuture.runAsync(first::await);
      assertThat(passed).isNotDone();
      Thread.sleep(100);
      assertThat(passed).isNotDone();
      second.await();
      assertThat(passed).succeedsWithin(10, TimeUnit.SECONDS);
    } finally {
      Files.delete(file);
    }
  }
}
