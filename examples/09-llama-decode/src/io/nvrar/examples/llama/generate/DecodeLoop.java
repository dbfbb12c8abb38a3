package io.nvrar.examples.llama.generate;

import io.nvrar.examples.llama.engine.Continuation;
import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.TokenBatch;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The decode loop: prefill, then one token per step for each unfinished sequence. It runs
 * identically on every rank; each rank chooses the next tokens itself (see {@link Sampler}), so the
 * ranks communicate only by the engine's collectives.
 */
public final class DecodeLoop {
  private static final float[] NO_LOGITS = {};

  /** How many steps the host makes at most until the engine feeds itself again. */
  private static final int MOST_BY_HOST = 64;

  private final LlamaEngine engine;
  private final DecodeRequest request;
  private final TokenSink sink;
  private final Sampler[] samplers;
  private final int[] lastToken;
  private final int[] generated;
  private final float[][] logits;
  private final TokenBatch batch;

  private DecodeLoop(LlamaEngine engine, DecodeRequest request, TokenSink sink) {
    this.engine = engine;
    this.request = request;
    this.sink = sink;
    int sequences = request.sequences();
    samplers = new Sampler[sequences];
    for (int i = 0; i < sequences; i++) {
      samplers[i] = new Sampler(request.sampling(), i);
    }
    lastToken = new int[sequences];
    generated = new int[sequences];
    logits = new float[sequences][engine.config().vocabularySize()];
    engine.begin(request.capacities());
    batch = new TokenBatch(engine.maxRows());
  }

  /** Decodes a request to its end. */
  public static void run(LlamaEngine engine, DecodeRequest request, TokenSink sink) {
    request.check(engine.config());
    DecodeLoop loop = new DecodeLoop(engine, request, sink);
    loop.prefill();
    loop.decode();
  }

  private void prefill() {
    for (int sequence = 0; sequence < request.sequences(); sequence++) {
      int[] prompt = request.prompt(sequence);
      for (int i = 0; i < prompt.length; i++) {
        if (batch.isFull()) {
          step();
        }
        batch.add(sequence, prompt[i], i == prompt.length - 1);
      }
    }
    step();
  }

  private void decode() {
    boolean feedsItself = !request.keepLogits();
    int byHost = 1;
    while (!isOver()) {
      int[] before = generated.clone();
      feedsItself = feedsItself && engine.generate(continuation(), this::accept);
      boolean pays =
          IntStream.range(0, before.length).anyMatch(i -> generated[i] - before[i] >= MOST_BY_HOST);
      byHost = pays ? 1 : Math.min(2 * byHost, MOST_BY_HOST);
      // Of the rows whose token the engine could not choose. It has enqueued steps in vain for
      // each,
      // so where that happens again and again the host goes on for longer.
      for (int step = 0; step < byHost && !isOver(); step++) {
        stepOfAll();
      }
    }
  }

  /** A step of the sequences that have not ended, whose tokens this host chooses. */
  private void stepOfAll() {
    for (int sequence = 0; sequence < request.sequences(); sequence++) {
      if (!isFinished(sequence)) {
        batch.add(sequence, lastToken[sequence], true);
      }
    }
    if (batch.rows() > 0) {
      step();
    }
  }

  private boolean isOver() {
    return IntStream.range(0, request.sequences()).allMatch(this::isFinished);
  }

  private Continuation continuation() {
    int[] remaining = new int[generated.length];
    for (int sequence = 0; sequence < remaining.length; sequence++) {
      remaining[sequence] = isFinished(sequence) ? 0 : request.maxTokens() - generated[sequence];
    }
    return new Continuation(
        lastToken,
        remaining,
        request.ignoreEnd() ? List.of() : engine.config().endTokens(),
        (float) request.sampling().temperature(),
        request.sampling().topK(),
        (float) request.sampling().topP(),
        request.sampling().seed());
  }

  private void accept(int sequence, int token) {
    lastToken[sequence] = token;
    generated[sequence]++;
    sink.accept(sequence, token, NO_LOGITS);
  }

  private void step() {
    engine.forward(batch, logits);
    int k = 0;
    for (int row = 0; row < batch.rows(); row++) {
      if (batch.wantsLogits(row)) {
        int sequence = batch.sequence(row);
        int token = samplers[sequence].choose(logits[k]);
        lastToken[sequence] = token;
        generated[sequence]++;
        sink.accept(sequence, token, logits[k]);
        k++;
      }
    }
    batch.clear();
  }

  private boolean isFinished(int sequence) {
    return generated[sequence] == request.maxTokens()
        || (!request.ignoreEnd() && engine.config().endTokens().contains(lastToken[sequence]));
  }
}
