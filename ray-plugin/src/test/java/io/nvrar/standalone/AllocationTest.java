package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A call that made garbage would, some thousand tokens later, stop a rank and so all of them. */
@Tag("contract")
class AllocationTest {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private static final int CALLS = 20_000;

  @Test
  void noCallAllocatesOnTheJavaHeap() {
    try (Members members = Members.join("lean", 1, Members.config().build());
        DeviceBuffer a = members.rank(0).device().allocate(DataType.FLOAT32, 64);
        DeviceBuffer b = members.rank(0).device().allocate(DataType.FLOAT32, 64);
        DeviceBuffer c = members.rank(0).device().allocate(DataType.FLOAT32, 64);
        DeviceBuffer d = members.rank(0).device().allocate(DataType.FLOAT32, 64);
        DeviceBuffer indices = members.rank(0).device().allocate(DataType.INT32, 4)) {
      CollectiveGroup group = members.rank(0);
      Runnable transfers =
          () -> {
            group.sendReceive(a, 0, b, 0);
            group.send(c, 0);
            group.recv(d, 0);
          };
      AllReduceFusion fusion = AllReduceFusion.residualRmsNorm(b, b, c, 1e-5f, d);
      TopK likeliest = TopK.argMax(16, 0, indices);
      Map<String, Runnable> calls = new LinkedHashMap<>();
      calls.put("allReduce", () -> group.allReduce(a));
      calls.put(
          "allReduce with an algorithm",
          () -> group.allReduce(a, b, ReduceOp.MIN, Algorithm.TWO_SHOT, group.stream()));
      calls.put(
          "allReduce in place with an operation on a stream",
          () -> group.allReduce(a, ReduceOp.MAX, group.stream()));
      calls.put("allReduce with a residual and RMSNorm", () -> group.allReduce(a, fusion));
      calls.put("topK", () -> group.topK(a, likeliest));
      calls.put("reduce", () -> group.reduce(a, 0));
      calls.put("reduceScatter", () -> group.reduceScatter(a, b));
      calls.put("allGather", () -> group.allGather(a, b));
      calls.put("allToAll", () -> group.allToAll(a, b));
      calls.put("broadcast", () -> group.broadcast(a, 0));
      calls.put("barrier", group::barrier);
      calls.put("sendReceive", () -> group.sendReceive(a, 0, b, 0));
      calls.put("batch", () -> group.batch(transfers));
      try (DeviceGraph graph =
          group
              .device()
              .capture(
                  group.stream(),
                  () -> {
                    group.allReduce(a);
                    group.allReduce(a, fusion);
                    group.batch(transfers);
                  })) {
        calls.put("the launch of a graph", () -> graph.launch(group.stream()));
        calls.forEach(
            (name, call) ->
                // Less than a byte a call: none of its own.
                assertThat(allocatedBytes(call)).as(name).isLessThan(CALLS));
        Members.complete(group);
      }
    }
  }

  private static long allocatedBytes(Runnable call) {
    long before = 0;
    for (int i = -CALLS; i < CALLS; i++) {
      if (i == 0) {
        before = THREADS.getCurrentThreadAllocatedBytes();
      }
      call.run();
    }
    return THREADS.getCurrentThreadAllocatedBytes() - before;
  }
}
