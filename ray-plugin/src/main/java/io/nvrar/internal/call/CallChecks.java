package io.nvrar.internal.call;

import io.nvrar.Algorithm;
import io.nvrar.AllReduceFusion;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceStream;
import io.nvrar.ReduceOp;
import io.nvrar.TopK;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Checks the arguments of collectives. Every message names both sides. Allocates nothing unless a
 * check fails.
 */
public final class CallChecks {
  private final DeviceChecks device;
  private final FusionChecks fused;
  private final int rank;
  private final int worldSize;
  private final boolean isOneNode;

  /**
   * @param isOneNode whether all ranks are in one node
   */
  public CallChecks(DeviceChecks device, int rank, int worldSize, boolean isOneNode) {
    this.device = device;
    fused = new FusionChecks(device);
    this.rank = rank;
    this.worldSize = worldSize;
    this.isOneNode = isOneNode;
  }

  public void allReduce(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, Algorithm algorithm, DeviceStream stream) {
    checkAlgorithm(algorithm);
    checkPair(send, recv, stream);
    checkOp("allReduce", op, send.dataType());
    checkSameCount(send, recv);
    DeviceChecks.checkApart("send", send, "recv", recv, true);
  }

  public void allReduce(
      DeviceBuffer input, AllReduceFusion fusion, Algorithm algorithm, DeviceStream stream) {
    checkAlgorithm(algorithm);
    device.checkStream(stream);
    fused.check(input, fusion);
  }

  public void topK(
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

  public void reduce(
      DeviceBuffer send, @Nullable DeviceBuffer recv, ReduceOp op, int root, DeviceStream stream) {
    checkRoot(root);
    if (rank != root) {
      // recv is written on the root only; other ranks may pass anything.
      device.checkBuffer("send", send);
      device.checkStream(stream);
      checkOp("reduce", op, send.dataType());
      return;
    }
    DeviceBuffer result = checkPair(send, recv, stream);
    checkOp("reduce", op, send.dataType());
    checkSameCount(send, result);
    DeviceChecks.checkApart("send", send, "recv", result, true);
  }

  public void reduceScatter(
      DeviceBuffer send, DeviceBuffer recv, ReduceOp op, DeviceStream stream) {
    checkPair(send, recv, stream);
    checkOp("reduceScatter", op, send.dataType());
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
      DeviceChecks.checkApart("send", send, "recv", recv, false);
    }
  }

  public void allGather(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream) {
    checkPair(send, recv, stream);
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
      DeviceChecks.checkApart("send", send, "recv", recv, false);
    }
  }

  public void allToAll(DeviceBuffer send, DeviceBuffer recv, DeviceStream stream) {
    checkPair(send, recv, stream);
    checkSameCount(send, recv);
    if (send.count() % worldSize != 0) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT,
              "send holds %d elements, which cannot be divided equally among %d ranks",
              send.count(),
              worldSize));
    }
    DeviceChecks.checkApart("send", send, "recv", recv, true);
  }

  public void broadcast(DeviceBuffer send, DeviceBuffer recv, int root, DeviceStream stream) {
    checkRoot(root);
    if (rank != root) {
      // send is read on the root only; other ranks may pass anything.
      device.checkBuffer("recv", recv);
      device.checkStream(stream);
      return;
    }
    checkPair(send, recv, stream);
    checkSameCount(send, recv);
    DeviceChecks.checkApart("send", send, "recv", recv, true);
  }

  public void barrier(DeviceStream stream) {
    device.checkStream(stream);
  }

  /** Checks a pair of buffers; returns {@code recv}, which is not null. */
  private DeviceBuffer checkPair(
      @Nullable DeviceBuffer send, @Nullable DeviceBuffer recv, @Nullable DeviceStream stream) {
    DeviceBuffer source = device.checkBuffer("send", send);
    device.checkStream(stream);
    if (source == recv) {
      return source;
    }
    DeviceBuffer target = device.checkBuffer("recv", recv);
    if (source.dataType() != target.dataType()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "send holds %s, recv holds %s", source.dataType(), target.dataType()));
    }
    return target;
  }

  private static void checkOp(String call, @Nullable ReduceOp op, DataType type) {
    if (op == null) {
      throw new IllegalArgumentException("op is null, " + call + " needs a ReduceOp");
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

  private void checkRoot(int root) {
    if (root < 0 || root >= worldSize) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "root is %d, the group's ranks are 0 to %d", root, worldSize - 1));
    }
  }

  private static void checkSameCount(DeviceBuffer send, DeviceBuffer recv) {
    if (send.count() != recv.count()) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "send holds %d elements, recv holds %d", send.count(), recv.count()));
    }
  }
}
