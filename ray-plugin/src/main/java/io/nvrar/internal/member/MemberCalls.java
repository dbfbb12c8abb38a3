package io.nvrar.internal.member;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.CollectiveException;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import io.nvrar.internal.call.CallChecks;
import org.jspecify.annotations.Nullable;

/**
 * A member's collectives. Each checks its arguments, then runs, or is recorded if its stream
 * captures. A recorded call runs the second half of its method at every launch of the graph, when
 * the group may have failed or a buffer may be closed.
 */
final class MemberCalls {
  private static final long NO_ADDRESS = 0;

  private final int rank;
  private final int worldSize;
  private final CallGate gate;
  private final CallChecks checks;

  MemberCalls(int rank, int worldSize, CallGate gate, CallChecks checks) {
    this.rank = rank;
    this.worldSize = worldSize;
    this.gate = gate;
    this.checks = checks;
  }

  void allReduce(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, Algorithm algorithm, DeviceStream on) {
    gate.checkCallable("allReduce");
    checks.allReduce(send, recv, op, algorithm, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> allReduceNow(send, recv, op, algorithm, on));
    } else {
      allReduceNow(send, recv, op, algorithm, on);
    }
  }

  private void allReduceNow(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, Algorithm algorithm, DeviceStream on) {
    gate.enter(send, recv, on);
    try {
      gate.communicator()
          .allReduce(
              send.address(),
              recv.address(),
              send.count(),
              send.dataType().code(),
              op.code(),
              algorithm.code(),
              on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(send, recv, on);
    }
  }

  void allReduce(DeviceBuffer input, AllReduceFusion fusion, Algorithm algorithm, DeviceStream on) {
    gate.checkCallable("allReduce");
    checks.allReduce(input, fusion, algorithm, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> allReduceNow(input, fusion, algorithm, on));
    } else {
      allReduceNow(input, fusion, algorithm, on);
    }
  }

  private void allReduceNow(
      DeviceBuffer input, AllReduceFusion fusion, Algorithm algorithm, DeviceStream on) {
    gate.enterFused(input, fusion, on);
    try {
      gate.communicator().allReduce(input, fusion, algorithm.code(), on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leaveFused(input, fusion, on);
    }
  }

  void topK(DeviceBuffer input, TopK topK, DeviceStream on) {
    gate.checkCallable("topK");
    checks.topK(input, topK, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> topKNow(input, topK, on));
    } else {
      topKNow(input, topK, on);
    }
  }

  private void topKNow(DeviceBuffer input, TopK topK, DeviceStream on) {
    gate.enterTopK(input, topK, on);
    try {
      gate.communicator().topK(input, topK, on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leaveTopK(input, topK, on);
    }
  }

  void reduce(
      DeviceBuffer send, @Nullable DeviceBuffer recv, ReduceOp op, int root, DeviceStream on) {
    gate.checkCallable("reduce");
    checks.reduce(send, recv, op, root, on);
    DeviceBuffer target = rank == root ? recv : null;
    if (CallGate.records(on)) {
      CallGate.record(on, () -> reduceNow(send, target, op, root, on));
    } else {
      reduceNow(send, target, op, root, on);
    }
  }

  private void reduceNow(
      DeviceBuffer send, @Nullable DeviceBuffer target, ReduceOp op, int root, DeviceStream on) {
    gate.enter(send, target, on);
    try {
      gate.communicator()
          .reduce(
              send.address(),
              target == null ? NO_ADDRESS : target.address(),
              send.count(),
              send.dataType().code(),
              op.code(),
              root,
              on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(send, target, on);
    }
  }

  void reduceScatter(DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream on) {
    gate.checkCallable("reduceScatter");
    checks.reduceScatter(send, recv, op, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> reduceScatterNow(send, recv, op, on));
    } else {
      reduceScatterNow(send, recv, op, on);
    }
  }

  private void reduceScatterNow(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream on) {
    gate.enter(send, recv, on);
    try {
      gate.communicator()
          .reduceScatter(
              send.address(),
              recv.address(),
              recv.count(),
              recv.dataType().code(),
              op.code(),
              on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(send, recv, on);
    }
  }

  void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    gate.checkCallable("allGather");
    checks.allGather(send, recv, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> allGatherNow(send, recv, on));
    } else {
      allGatherNow(send, recv, on);
    }
  }

  private void allGatherNow(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    gate.enter(send, recv, on);
    try {
      gate.communicator()
          .allGather(
              send.address(), recv.address(), send.count(), send.dataType().code(), on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(send, recv, on);
    }
  }

  void allToAll(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    gate.checkCallable("allToAll");
    checks.allToAll(send, recv, on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> allToAllNow(send, recv, on));
    } else {
      allToAllNow(send, recv, on);
    }
  }

  private void allToAllNow(DeviceBuffer send, DeviceBuffer recv, DeviceStream on) {
    gate.enter(send, recv, on);
    try {
      gate.communicator()
          .allToAll(
              send.address(),
              recv.address(),
              send.count() / worldSize,
              send.dataType().code(),
              on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(send, recv, on);
    }
  }

  void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream on) {
    gate.checkCallable("broadcast");
    checks.broadcast(send, recv, root, on);
    DeviceBuffer source = rank == root ? send : recv;
    if (CallGate.records(on)) {
      CallGate.record(on, () -> broadcastNow(source, recv, root, on));
    } else {
      broadcastNow(source, recv, root, on);
    }
  }

  private void broadcastNow(DeviceBuffer source, DeviceBuffer recv, int root, DeviceStream on) {
    gate.enter(source, recv, on);
    try {
      gate.communicator()
          .broadcast(
              source.address(),
              recv.address(),
              recv.count(),
              recv.dataType().code(),
              root,
              on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(source, recv, on);
    }
  }

  void barrier(DeviceStream on) {
    gate.checkCallable("barrier");
    checks.barrier(on);
    if (CallGate.records(on)) {
      CallGate.record(on, () -> barrierNow(on));
    } else {
      barrierNow(on);
    }
  }

  private void barrierNow(DeviceStream on) {
    gate.enter(null, null, on);
    try {
      gate.communicator().barrier(on.handle());
    } catch (CollectiveException e) {
      throw gate.failed(e);
    } finally {
      gate.leave(null, null, on);
    }
  }
}
