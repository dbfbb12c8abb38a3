package io.nvrar.examples.onnx;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import io.nvrar.Backend;
import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.standalone.GroupTicket;
import io.nvrar.standalone.Groups;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** A model of ONNX Runtime that is spread over two ranks, which are threads here. */
public final class ShardedModel {
  static final int RANKS = 2;
  private static final int ROWS = 3;
  private static final int HIDDEN = 8;

  private ShardedModel() {}

  /** The same on every rank. */
  private static FloatBuffer input(int step) {
    Random random = new Random(step);
    FloatBuffer x = FloatBuffer.allocate(ROWS * HIDDEN);
    while (x.hasRemaining()) {
      x.put((float) random.nextGaussian());
    }
    return x.flip();
  }

  /** One rank's outputs, an array for each step. */
  static List<float[]> rank(GroupTicket ticket, int rank, Path models, int steps)
      throws OrtException {
    Path model = models.resolve(String.format(Locale.ROOT, "rank-%d-of-%d.onnx", rank, RANKS));
    List<float[]> outputs = new ArrayList<>();
    try (CollectiveGroup group = Groups.join(ticket, rank);
        Shard shard = new Shard(group, model, ROWS, HIDDEN)) {
      for (int step = 0; step < steps; step++) {
        float[] output = new float[ROWS * HIDDEN];
        shard.run(input(step)).get(output);
        outputs.add(output);
      }
    }
    return outputs;
  }

  /** The outputs of the whole model, without a group. */
  static List<float[]> unsharded(Path models, int steps) throws OrtException {
    OrtEnvironment environment = OrtEnvironment.getEnvironment();
    List<float[]> outputs = new ArrayList<>();
    try (OrtSession session = environment.createSession(models.resolve("whole.onnx").toString())) {
      for (int step = 0; step < steps; step++) {
        try (OnnxTensor x =
                OnnxTensor.createTensor(environment, input(step), new long[] {ROWS, HIDDEN});
            OrtSession.Result result = session.run(Map.of("x", x))) {
          outputs.add(((OnnxTensor) result.get(0)).getFloatBuffer().array());
        }
      }
    }
    return outputs;
  }

  /** The outputs of all ranks. */
  static List<List<float[]>> ranks(Path models, int steps) {
    GroupConfig config = GroupConfig.builder().backend(Backend.CPU).build();
    GroupTicket ticket = Groups.createTicket("onnx", RANKS, config, "127.0.0.1");
    List<CompletableFuture<List<float[]>>> ranks = new ArrayList<>();
    for (int i = 0; i < RANKS; i++) {
      int rank = i;
      // A thread for each, because ranks wait for each other.
      ranks.add(
          CompletableFuture.supplyAsync(
              () -> {
                try {
                  return rank(ticket, rank, models, steps);
                } catch (OrtException e) {
                  throw new CompletionException(e);
                }
              },
              work -> new Thread(work, "rank " + rank).start()));
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

  public static void main(String[] args) throws OrtException {
    Path models = Path.of(args.length == 0 ? "models" : args[0]);
    float[] whole = unsharded(models, 1).get(0);
    List<List<float[]>> outputs = ranks(models, 1);
    for (int rank = 0; rank < RANKS; rank++) {
      float[] output = outputs.get(rank).get(0);
      System.out.printf(
          Locale.ROOT,
          "rank %d of %d: output[0][0] is %.3f, at most %.0e from the whole model's%n",
          rank,
          RANKS,
          output[0],
          difference(whole, output));
    }
  }
}
