package io.nvrar.internal.device.cuda;

import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.GroupConfig;
import io.nvrar.MemoryProvider;
import io.nvrar.ReduceOp;
import io.nvrar.device.Devices;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Makes a group on GPUs whose members are threads, gives rank 0 what a call cannot take, and prints
 * what is said of it, a line each.
 */
final class CudaGroupProcess {
  static final int FAILED = 3;

  private CudaGroupProcess() {}

  /** The arguments are how the members reach each other, and the ordinal of each member's GPU. */
  public static void main(String[] args) throws Exception {
    int members = args.length - 1;
    List<CollectiveGroup> joined = new ArrayList<>();
    ExecutorService threads = Executors.newFixedThreadPool(members);
    try {
      GroupConfig config =
          GroupConfig.builder()
              .backend(Backend.CUDA)
              .cuda(cuda -> cuda.memory(MemoryProvider.valueOf(args[0])))
              .joinTimeout(Duration.ofSeconds(20))
              .ringBytes(8192)
              .build();
      GroupTicket ticket = Groups.createTicket("g", members, config, "127.0.0.1");
      List<Future<CollectiveGroup>> joins = new ArrayList<>();
      for (int rank = 0; rank < members; rank++) {
        int of = rank;
        joins.add(threads.submit(() -> Groups.join(ticket, of, Integer.parseInt(args[of + 1]))));
      }
      for (int rank = 0; rank < members; rank++) {
        int of = rank;
        say("rank " + rank + " joins", () -> joined.add(get(joins.get(of))));
      }
      if (joined.size() == members) {
        misuse(joined.get(0));
      }
    } catch (RuntimeException e) {
      System.out.println(e.getClass().getSimpleName() + ": " + e.getMessage());
      System.exit(FAILED);
    }
    joined.forEach(group -> group.abort("this test is done with it"));
    joined.forEach(CollectiveGroup::close);
    threads.shutdownNow();
  }

  private static void misuse(CollectiveGroup group) {
    try (DeviceBuffer own = group.device().allocate(DataType.FLOAT32, 4);
        DeviceBuffer integers = group.device().allocate(DataType.INT32, 4);
        DeviceBuffer onHost = Devices.open(Backend.CPU, 0).allocate(DataType.FLOAT32, 4);
        DeviceBuffer pinned = group.device().allocatePinned(DataType.FLOAT32, 4);
        DeviceBuffer elsewhere = CudaDevices.open(1).allocate(DataType.FLOAT32, 4);
        DeviceStream hostStream = Devices.open(Backend.CPU, 0).createStream();
        DeviceStream otherStream = CudaDevices.open(1).createStream();
        DeviceStream stream = group.device().createStream()) {
      say("a host buffer", () -> group.allReduce(onHost, onHost, ReduceOp.SUM, stream));
      say("a pinned buffer", () -> group.allReduce(own, pinned, ReduceOp.SUM, stream));
      say("another GPU's buffer", () -> group.allReduce(elsewhere, own, ReduceOp.SUM, stream));
      say("AVG of integers", () -> group.allReduce(integers, integers, ReduceOp.AVG, stream));
      say("a host stream", () -> group.allReduce(own, own, ReduceOp.SUM, hostStream));
      say("another GPU's stream", () -> group.allReduce(own, own, ReduceOp.SUM, otherStream));
      say("a send from the host", () -> group.send(onHost, 1, stream));
    }
  }

  private static CollectiveGroup get(Future<CollectiveGroup> join) throws Exception {
    try {
      return join.get();
    } catch (ExecutionException e) {
      throw (Exception) e.getCause();
    }
  }

  private static void say(String what, Attempt attempt) {
    String outcome;
    try {
      attempt.run();
      outcome = "done";
    } catch (Exception e) {
      outcome = e.getClass().getSimpleName() + ": " + e.getMessage();
    }
    System.out.println(what + ": " + outcome);
  }

  private interface Attempt {
    void run() throws Exception;
  }
}
