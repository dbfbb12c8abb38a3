package io.nvrar.internal.binding;

import io.nvrar.Algorithm;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.GroupConfig;
import io.nvrar.ReduceOp;
import io.nvrar.standalone.Groups;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * What a collective call costs before and after the data moves: a group of one, which only copies
 * two floats, layer by layer from the bare native call upwards.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(
    value = 3,
    jvmArgsPrepend = {"-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"})
@SuppressWarnings("NullAway.Init") // JMH calls join() first
public class CallPathBenchmark {
  private static final int GRAPH_CALLS = 10;

  private CollectiveGroup group;
  private Ranks alone;
  private NativeCommunicator communicator;
  private DeviceBuffer send;
  private DeviceBuffer recv;
  private DeviceGraph graph;
  private Call call;

  @Setup
  public void join() {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    group = Groups.join(Groups.createTicket("jmh", 1, config, "127.0.0.1"), 0);
    send = group.device().allocate(DataType.FLOAT32, 2);
    recv = group.device().allocate(DataType.FLOAT32, 2);
    send.copyFrom(new float[] {1, 2});
    graph =
        group
            .device()
            .capture(
                group.stream(),
                () -> {
                  for (int i = 0; i < GRAPH_CALLS; i++) {
                    allReduce();
                  }
                });
    call = new Call().allReduce(send, recv, ReduceOp.SUM, Algorithm.AUTO);
    alone = new Ranks(1, GroupConfig.TIMEOUT_DEFAULT);
    communicator = alone.member(0);
  }

  @TearDown
  public void close() {
    alone.close();
    graph.close();
    send.close();
    recv.close();
    group.close();
  }

  /** JNA's direct mapping with the library's shortest function. */
  @Benchmark
  public long nativeCall() {
    return NvrarBinding.nvrar_build_id();
  }

  /** An all-reduce by JNA's direct mapping, which every JVM has. */
  @Benchmark
  public int nativeAllReduceByJna() {
    return NvrarBinding.nvrar_all_reduce(
        communicator.member().comm(),
        send.address(),
        recv.address(),
        2,
        DataType.FLOAT32.code(),
        ReduceOp.SUM.code(),
        Algorithm.AUTO.code(),
        0);
  }

  /** The same by the way that this JVM uses. */
  @Benchmark
  public int nativeAllReduce() {
    return NativeCalls.run(call, communicator.member(), 1, 0);
  }

  /** With the states that keep a running call and a close apart. */
  @Benchmark
  public void communicatorAllReduce() {
    communicator.run(call, 0);
  }

  /** What a user calls: with the checks of state, buffers and stream. */
  @Benchmark
  public void allReduce() {
    group.allReduce(send, recv, ReduceOp.SUM, Algorithm.AUTO, group.stream());
  }

  /** A recorded sequence of ten all-reduces. */
  @Benchmark
  public void graphOfTenAllReduces() {
    graph.launch(group.stream());
  }
}
