package io.nvrar.tools.bench.measure;

import io.nvrar.CollectiveGroup;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.tools.bench.setup.CollectiveValues;
import io.nvrar.tools.bench.setup.Settings;

/** Creates the group call that the settings describe. */
final class GroupCalls {
  private GroupCalls() {}

  /** Creates it once for its buffers, so that a call in a timed loop allocates nothing. */
  static Runnable of(
      CollectiveGroup group,
      Settings settings,
      CollectiveValues problem,
      DeviceBuffer from,
      DeviceBuffer to,
      DeviceStream stream) {
    int next = (group.rank() + 1) % group.worldSize();
    int previous = (group.rank() + group.worldSize() - 1) % group.worldSize();
    return switch (problem.collective()) {
      case ALL_REDUCE ->
          () -> group.allReduce(from, to, problem.op(), settings.algorithm(), stream);
      case REDUCE -> () -> group.reduce(from, to, problem.op(), problem.root(), stream);
      case BROADCAST -> () -> group.broadcast(from, to, problem.root(), stream);
      case ALL_GATHER -> () -> group.allGather(from, to, stream);
      case REDUCE_SCATTER -> () -> group.reduceScatter(from, to, problem.op(), stream);
      case ALL_TO_ALL -> () -> group.allToAll(from, to, stream);
      case SEND_RECEIVE -> () -> group.sendReceive(from, next, to, previous, stream);
      case BARRIER -> () -> group.barrier(stream);
    };
  }
}
