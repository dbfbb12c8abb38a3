package io.nvrar.tools.bench.measure;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import io.nvrar.tools.bench.measure.CpuMemberRun.Batch;
import io.nvrar.tools.bench.results.ResultLine;
import io.nvrar.tools.bench.setup.Settings;
import io.nvrar.tools.bench.setup.TestSettings;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class CpuMemberRunTest {
  private static final Settings SETTINGS = TestSettings.onHost(1, 64, 4096, 8, 2, 0, 3);

  /** Measures a group of one whose results the test may damage. */
  private static List<Batch> measure(Consumer<DeviceBuffer> damage) {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    GroupTicket ticket = Groups.createTicket("bench", 1, config, "127.0.0.1");
    try (CollectiveGroup group = Groups.join(ticket, 0)) {
      Object damaging =
          Proxy.newProxyInstance(
              CpuMemberRunTest.class.getClassLoader(),
              new Class<?>[] {CollectiveGroup.class},
              (proxy, method, arguments) -> {
                try {
                  Object result = method.invoke(group, arguments);
                  if (method.getName().equals("allReduce")) {
                    damage.accept((DeviceBuffer) arguments[1]);
                  }
                  return result;
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                }
              });
      return new CpuMemberRun((CollectiveGroup) damaging, SETTINGS).run();
    }
  }

  @Test
  void rightResultsCountNoWrongElement() {
    List<Batch> batches = measure(recv -> {});
    assertThat(batches).hasSize(3 * 3 * 2);
    assertThat(batches).allSatisfy(batch -> assertThat(batch.wrong()).isZero());
  }

  @Test
  void oneDamagedElementIsCountedInEveryBatch() {
    List<Batch> batches =
        measure(
            recv -> {
              float[] last = new float[1];
              recv.copyTo(recv.count() - 1, last, 0, 1);
              last[0] += 1;
              recv.copyFrom(last, 0, recv.count() - 1, 1);
            });
    assertThat(batches).hasSize(3 * 3 * 2);
    assertThat(batches).allSatisfy(batch -> assertThat(batch.wrong()).isEqualTo(1));
    List<JsonObject> lines = JavaRun.rows(SETTINGS, List.of(batches));
    assertThat(lines).hasSize(3 * 2);
    assertThat(lines).allSatisfy(line -> assertThat(line.get("wrong").getAsLong()).isEqualTo(3));
  }

  @Test
  void timeOfAResultIsTheMedianOfTheSlowestRank() {
    Settings settings = TestSettings.onHost(4, 1024, 4096, 4, 0, -1, 3);
    List<Batch> fast = List.of(batch(1, 0), batch(9, 0), batch(2, 0));
    List<Batch> slow = List.of(batch(5, 1), batch(3, 0), batch(4, 2));
    List<JsonObject> lines = JavaRun.rows(settings, List.of(fast, slow));
    assertThat(lines).hasSize(1);
    // Per batch the slower of both: 5, 9, 4.
    assertThat(lines.get(0).get("median").getAsDouble()).isEqualTo(5);
    assertThat(lines.get(0).get("least").getAsDouble()).isEqualTo(4);
    assertThat(lines.get(0).get("most").getAsDouble()).isEqualTo(9);
    assertThat(lines.get(0).get("wrong").getAsLong()).isEqualTo(3);
  }

  private static Batch batch(double us, long wrong) {
    return new Batch(1024, ResultLine.OUT_OF_PLACE, "calls", us, wrong);
  }
}
