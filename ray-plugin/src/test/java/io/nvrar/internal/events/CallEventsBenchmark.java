package io.nvrar.internal.events;

import io.nvrar.Backend;
import io.nvrar.Collective;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.Groups;
import java.util.concurrent.TimeUnit;
import jdk.jfr.Recording;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * What the event of a call adds to it: nobody records; a recording without calls runs; one with
 * calls that are slower than all of these; one with all calls.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(
    value = 3,
    jvmArgsPrepend = {"-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"})
@SuppressWarnings("NullAway.Init") // JMH calls start() first
public class CallEventsBenchmark {
  @Param({"nothing", "others", "slow", "all"})
  public String recorded;

  private Recording recording;
  private CallEvents events;
  private CollectiveGroup group;
  private DeviceBuffer buffer;

  @Setup
  public void start() {
    recording = new Recording();
    switch (recorded) {
      case "slow" -> recording.enable(CallEvent.NAME).with("threshold", "1 s");
      case "all" -> recording.enable(CallEvent.NAME);
      default -> {}
    }
    recording.setMaxSize(64 << 20);
    if (!recorded.equals("nothing")) {
      recording.start();
    }
    events = new CallEvents("group 'jmh'", 0, () -> 1);
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    group = Groups.join(Groups.createTicket("jmh", 1, config, "127.0.0.1"), 0);
    buffer = group.device().allocate(DataType.FLOAT32, 2);
  }

  @TearDown
  public void stop() {
    buffer.close();
    group.close();
    recording.close();
  }

  /** The event alone. */
  @Benchmark
  public void event() {
    Object begun = CallEvents.begin();
    events.end(begun, Collective.ALL_REDUCE, DataType.FLOAT32.code(), 2);
  }

  /** An all-reduce of a group of one, with its event. */
  @Benchmark
  public void allReduce() {
    group.allReduce(buffer);
  }
}
