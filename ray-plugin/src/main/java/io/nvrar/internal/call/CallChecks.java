package io.nvrar.internal.call;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import io.nvrar.internal.binding.Call;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Checks the arguments of calls. Every message names both sides. Allocates nothing unless a check
 * fails.
 */
public final class CallChecks {
  private final DeviceChecks device;
  private final FusionChecks fused;
  private final TransferChecks transfers;
  private final int rank;
  private final int worldSize;
  private final boolean isOneNode;

  /**
   * @param isOneNode whether all ranks are in one node
   */
  public CallChecks(
      DeviceChecks device, TransferChecks transfers, int rank, int worldSize, boolean isOneNode) {
    this.device = device;
    this.transfers = transfers;
    fused = new FusionChecks(device);
    this.rank = rank;
    this.worldSize = worldSize;
    this.isOneNode = isOneNode;
  }

  /** Checks all arguments of a call. */
  public void check(Call call, @Nullable DeviceStream stream) {
    switch (call.kind()) {
      case ALL_REDUCE -> allReduce(call, stream);
      case FUSED_ALL_REDUCE -> {
        checkAlgorithm(call.algorithm());
        device.checkStream(stream);
        fused.check(call.buffer(0), call.fusion());
      }
      case TOP_K -> topK(call.buffer(0), call.topK(), stream);
      case REDUCE -> reduce(call, stream);
      case REDUCE_SCATTER -> reduceScatter(call, stream);
      case ALL_GATHER -> allGather(call, stream);
      case ALL_TO_ALL -> allToAll(call, stream);
      case BROADCAST -> broadcast(call, stream);
      case BARRIER -> device.checkStream(stream);
      case SEND, RECV -> transfers.alone(call, stream);
      case SEND_RECEIVE -> transfers.sendReceive(call, stream);
      case BATCH -> device.checkStream(stream); // each transfer was checked when it was added
    }
  }

  private void allReduce(Call call, @Nullable DeviceStream stream) {
    checkAlgorithm(call.algorithm());
    checkPair(call, stream);
    checkOp(call);
    checkSameCount(call);
    checkApart(call, true);
  }

  private void topK(
      @Nullable DeviceBuffer input, @Nullable TopK topK, @Nullable DeviceStream stream) {
    if (topK == null) {
      throw new IllegalArgumentException("topK is null, topK needs a TopK");
    }
    device.checkStream(stream);
    DeviceBuffer source = device.checkBuffer("input", input);
    DeviceBuffer indices = device.checkBuffer("indices", topK.indices());
    topK.checkInput(source);
    DeviceChecks.checkApart("input", source, "indices", indices, false);
    DeviceBuffer values = topK.values();
    if (values != null) {
      device.checkBuffer("values", values);
      DeviceChecks.checkApart("input", source, "values", values, false);
      DeviceChecks.checkApart("values", values, "indices", indices, false);
    }
  }

  private void reduce(Call call, @Nullable DeviceStream stream) {
    checkRoot(call);
    if (rank != call.root()) {
      // Only the root has a recv.
      device.checkBuffer("send", call.buffer(0));
      device.checkStream(stream);
      checkOp(call);
      return;
    }
    checkPair(call, stream);
    checkOp(call);
    checkSameCount(call);
    checkApart(call, true);
  }

  private void reduceScatter(Call call, @Nullable DeviceStream stream) {
    checkPair(call, stream);
    checkOp(call);
    DeviceBuffer send = call.send();
    DeviceBuffer recv = call.recv();
    long need = recv.count() * worldSize;
    if (send.count() != need) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "send holds %d elements, %d ranks x %d of recv need %d",
              send.count(),
              worldSize,
              recv.count(),
              need));
    }
    if (recv.address() != send.address() + rank * recv.sizeBytes()) {
      checkApart(call, false);
    }
  }

  private void allGather(Call call, @Nullable DeviceStream stream) {
    checkPair(call, stream);
    DeviceBuffer send = call.send();
    DeviceBuffer recv = call.recv();
    long need = send.count() * worldSize;
    if (recv.count() != need) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "recv holds %d elements, %d ranks x %d need %d",
              recv.count(),
              worldSize,
              send.count(),
              need));
    }
    if (send.address() != recv.address() + rank * send.sizeBytes()) {
      checkApart(call, false);
    }
  }

  private void allToAll(Call call, @Nullable DeviceStream stream) {
    checkPair(call, stream);
    checkSameCount(call);
    if (call.send().count() % worldSize != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "send holds %d elements, which cannot be divided equally among %d ranks",
              call.send().count(),
              worldSize));
    }
    checkApart(call, true);
  }

  private void broadcast(Call call, @Nullable DeviceStream stream) {
    checkRoot(call);
    if (rank != call.root()) {
      // Only the root has a send.
      device.checkBuffer("recv", call.buffer(1));
      device.checkStream(stream);
      return;
    }
    checkPair(call, stream);
    checkSameCount(call);
    checkApart(call, true);
  }

  /** Checks that both buffers are there and of one type. */
  private void checkPair(Call call, @Nullable DeviceStream stream) {
    DeviceBuffer send = device.checkBuffer("send", call.buffer(0));
    device.checkStream(stream);
    DeviceBuffer recv = call.buffer(1);
    if (send == recv) {
      return;
    }
    if (send.dataType() != device.checkBuffer("recv", recv).dataType()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "send holds %s, recv holds %s",
              send.dataType(),
              call.recv().dataType()));
    }
  }

  private static void checkOp(Call call) {
    ReduceOp op = call.op();
    DataType type = call.send().dataType();
    if (op == null) {
      throw new IllegalArgumentException("op is null, " + call.method() + " needs a ReduceOp");
    }
    if (op == ReduceOp.AVG && !type.isFloat()) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "op is AVG, which is for floats, and send holds %s", type));
    }
  }

  private void checkAlgorithm(@Nullable Algorithm algorithm) {
    if (algorithm == null) {
      throw new IllegalArgumentException("algorithm is null, allReduce needs an Algorithm");
    }
    if (algorithm == Algorithm.HIERARCHICAL && isOneNode) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "algorithm is HIERARCHICAL, which needs several nodes, and the group's %d ranks are one",
              worldSize));
    }
  }

  private void checkRoot(Call call) {
    int root = call.root();
    if (root < 0 || root >= worldSize) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "root is %d, the group's ranks are 0 to %d", root, worldSize - 1));
    }
  }

  private static void checkSameCount(Call call) {
    long sent = call.send().count();
    long received = call.recv().count();
    if (sent != received) {
      throw new IllegalArgumentException(
          String.format(Locale.ROOT, "send holds %d elements, recv holds %d", sent, received));
    }
  }

  private static void checkApart(Call call, boolean mayBeSame) {
    DeviceChecks.checkApart("send", call.send(), "recv", call.recv(), mayBeSame);
  }
}
