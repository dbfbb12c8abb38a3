package io.nvrar.examples.llama;

import io.nvrar.CollectiveGroup;
import io.nvrar.examples.llama.engine.CpuEngine;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.ray.CollectiveActor;
import io.nvrar.ray.RayCollectives;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * One rank of the model, in a process of its own.
 *
 * <p>A Ray call costs as much as many collectives, so no call belongs to a token: the decode loop
 * runs on a thread of the actor, in step with the other ranks by nothing but the collectives, and
 * the driver asks rank 0 for what has been generated since it asked last. Such a question waits in
 * the actor until there is something, and takes along all there is: text streams as it is
 * generated, however fast that is.
 *
 * <p>Methods return something because Ray drops what a void method throws.
 */
public final class LlamaActor implements CollectiveActor {
  private static final long POLL_MILLIS = 100;
  private static final long WAIT_MILLIS = 2000;

  private final BackgroundWork work = new BackgroundWork();
  private final AtomicLong loadedBytes = new AtomicLong();
  private final DecodeTimes times = new DecodeTimes();
  private @Nullable CollectiveGroup group;
  // Written by the loading thread, whose end is awaited before anything reads it.
  private volatile @Nullable LlamaEngine engine;
  private GeneratedTokens tokens = new GeneratedTokens(false);

  /** Starts to load this rank's weights. */
  public boolean load(String directory, String groupName) {
    CollectiveGroup member = RayCollectives.group(groupName);
    group = member;
    work.start(
        "load",
        () -> {
          Path path = Path.of(directory);
          LlamaConfig config = LlamaConfig.read(path);
          Shard shard = Shard.of(config, member.rank(), member.worldSize());
          LlamaWeights weights = LlamaWeights.read(path, config, shard, loadedBytes::addAndGet);
          engine = new CpuEngine(weights, member);
        });
    return true;
  }

  /** How many bytes have been read; negative, less one, when all have. */
  public long loaded() throws InterruptedException {
    boolean done = work.isDone(POLL_MILLIS);
    return done ? -1 - loadedBytes.get() : loadedBytes.get();
  }

  /** Starts to decode. All ranks must be given the same request. */
  public boolean start(DecodeRequest request) {
    LlamaEngine loaded = engine;
    CollectiveGroup member = group;
    if (loaded == null || member == null) {
      throw new IllegalStateException("the weights are not loaded");
    }
    boolean first = member.rank() == 0;
    GeneratedTokens sink = new GeneratedTokens(first && request.keepLogits());
    tokens = sink;
    work.start("decode", () -> decode(loaded, member, request, first, sink));
    return true;
  }

  /**
   * What was generated since the last call, see {@link GeneratedTokens#take}; on other ranks than 0
   * nothing but whether decoding has ended. Waits a while for that. Throws what ended the decoding.
   */
  public int[] poll() throws InterruptedException {
    int[] taken = tokens.take(WAIT_MILLIS);
    if (taken[0] == 1 && !work.isDone(WAIT_MILLIS)) {
      taken[0] = 0;
    }
    return taken;
  }

  /** On rank 0: the next row of logits as little-endian float32. */
  public byte[] takeLogits() {
    byte[] row = tokens.takeLogits();
    if (row == null) {
      throw new IllegalStateException("there are no more rows of logits");
    }
    return row;
  }

  /** See {@link DecodeTimes#toArray}. */
  public double[] times() {
    return times.toArray();
  }

  private void decode(
      LlamaEngine loaded,
      CollectiveGroup member,
      DecodeRequest request,
      boolean keepTokens,
      GeneratedTokens sink) {
    times.begin();
    try {
      DecodeLoop.run(
          loaded,
          request,
          (sequence, token, logits) -> {
            times.token();
            if (keepTokens) {
              sink.accept(sequence, token, logits);
            }
          });
      times.end(loaded.collectiveNanos());
    } catch (RuntimeException | Error e) {
      // The others wait for this rank's part, and would until their time-out.
      member.abort("rank %d cannot go on: %s".formatted(member.rank(), e));
      throw e;
    } finally {
      sink.end();
    }
  }
}
