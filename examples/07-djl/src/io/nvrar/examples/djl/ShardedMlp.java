package io.nvrar.examples.djl;

import ai.djl.ndarray.NDArray;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;

/** An MLP whose width is spread over ranks, which are threads here. */
public final class ShardedMlp {
  private static final int ROWS = 3;
  private static final int HIDDEN = 8;

  /** Not divisible by 3, so that the parts of three ranks differ in size. */
  private static final int WIDTH = 32;

  private static final int SEED = 7;

  private ShardedMlp() {}

  /** One rank's output, [rows * hidden]. */
  static float[] rank(GroupTicket ticket, int rank, int worldSize) {
    try (CollectiveGroup group = Groups.join(ticket, rank);
        NDManager manager = Mlp.manager();
        RankSum sum = new RankSum(group, new Shape(ROWS, HIDDEN), DataType.FLOAT32)) {
      Mlp shard = Mlp.random(manager, SEED, HIDDEN, WIDTH).shard(rank, worldSize);
      NDArray output = shard.apply(Mlp.input(manager, SEED, ROWS, HIDDEN));
      sum.of(output);
      return output.toFloatArray();
    }
  }

  /** The same on one rank, without a group. */
  static float[] unsharded() {
    try (NDManager manager = Mlp.manager()) {
      Mlp mlp = Mlp.random(manager, SEED, HIDDEN, WIDTH);
      return mlp.apply(Mlp.input(manager, SEED, ROWS, HIDDEN)).toFloatArray();
    }
  }

  /** The outputs of all ranks. */
  static List<float[]> ranks(int worldSize) {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    GroupTicket ticket = Groups.createTicket("mlp", worldSize, config, "127.0.0.1");
    List<CompletableFuture<float[]>> ranks = new ArrayList<>();
    for (int i = 0; i < worldSize; i++) {
      int rank = i;
      CompletableFuture<float[]> output = new CompletableFuture<>();
      // A thread for each, because ranks wait for each other.
      new Thread(
              () -> output.completeAsync(() -> rank(ticket, rank, worldSize), Runnable::run),
              "rank " + rank)
          .start();
      ranks.add(output);
    }
    return ranks.stream().map(CompletableFuture::join).toList();
  }

  /** The largest difference of two outputs. */
  static float difference(float[] one, float[] other) {
    float largest = 0;
    for (int i = 0; i < one.length; i++) {
      largest = Math.max(largest, Math.abs(one[i] - other[i]));
    }
    return largest;
  }

  public static void main(String[] args) {
    int worldSize = args.length == 0 ? 2 : Integer.parseInt(args[0]);
    float[] whole = unsharded();
    List<float[]> outputs = ranks(worldSize);
    for (int rank = 0; rank < worldSize; rank++) {
      System.out.printf(
          Locale.ROOT,
          "rank %d of %d: output[0][0] is %.3f, at most %.0e from one rank's%n",
          rank,
          worldSize,
          outputs.get(rank)[0],
          difference(whole, outputs.get(rank)));
    }
  }
}
