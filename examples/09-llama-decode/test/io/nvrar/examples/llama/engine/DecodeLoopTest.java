package io.nvrar.examples.llama.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.engine.cpu.CpuEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.Checkpoint;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.ModelException;
import io.nvrar.examples.llama.weights.ReferenceModel;
import io.nvrar.examples.llama.weights.Shard;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class DecodeLoopTest {
  private static final Path MODEL = Path.of("model/tiny-english");
  private static final int MAX_TOKENS = 20;

  // Together more rows than one prefill step takes, so that a prompt is split between two.
  private static final int[][] PROMPTS = {
    prompt(3, 1), prompt(110, 7), prompt(1, 3), prompt(60, 5), prompt(9, 11)
  };

  @Test
  void promptsOfDifferentLengthsInOneBatchGiveWhatEachGivesAlone() throws Exception {
    List<List<Integer>> together = decode(2, request(PROMPTS, true, Sampling.greedy())).get(0);
    for (int i = 0; i < PROMPTS.length; i++) {
      DecodeRequest single = request(new int[][] {PROMPTS[i]}, true, Sampling.greedy());
      assertThat(decode(2, single).get(0).get(0)).isEqualTo(together.get(i));
    }
  }

  @Test
  void sampledTokensAreTheSameOnAllRanks() throws Exception {
    DecodeRequest request = request(PROMPTS, true, new Sampling(1.0, 50, 0.95, 12345));
    List<List<List<Integer>>> ranks = decode(4, request);
    assertThat(ranks).allSatisfy(rank -> assertThat(rank).isEqualTo(ranks.get(0)));
    assertThat(ranks.get(0)).allSatisfy(tokens -> assertThat(tokens).hasSize(MAX_TOKENS));
  }

  @Test
  void aSequenceStopsAtItsEndTokenWhileTheOthersGoOn() throws Exception {
    List<List<Integer>> free = decode(1, request(PROMPTS, true, Sampling.greedy())).get(0);
    // What the first sequence generates third is declared an end token.
    int end = free.get(0).get(2);
    List<List<Integer>> stopped =
        RankThreads.run(
                1,
                group ->
                    run(
                        new CpuEngine(
                            weights(ReferenceModel.withEnd(LlamaConfig.read(MODEL), end), 0, 1),
                            group),
                        request(PROMPTS, false, Sampling.greedy())))
            .get(0);
    for (int i = 0; i < PROMPTS.length; i++) {
      int at = free.get(i).indexOf(end);
      assertThat(stopped.get(i)).isEqualTo(at < 0 ? free.get(i) : free.get(i).subList(0, at + 1));
    }
    assertThat(stopped.get(0).size()).isLessThanOrEqualTo(3);
  }

  // 7, if the host makes twice as many steps each time: 2, 4, 8, 16, 32, 64.
  @ParameterizedTest(name = "{0} at once: {1} turns")
  @CsvSource({"3, 7", "100, 2"})
  void tokensThatTheEngineCannotChooseAreChosenByTheHostInTurns(int atOnce, int turns)
      throws Exception {
    int maxTokens = 200;
    DecodeRequest request =
        new DecodeRequest(
            new int[][] {prompt(3, 1), prompt(5, 2)}, maxTokens, true, false, Sampling.greedy());
    SometimesUndecided engine = new SometimesUndecided(LlamaConfig.read(MODEL), atOnce);
    List<List<Integer>> tokens = run(engine, request);
    assertThat(tokens)
        .allSatisfy(row -> assertThat(row).hasSize(maxTokens))
        .allSatisfy(row -> assertThat(row).contains(SometimesUndecided.BY_HOST));
    assertThat(engine.turns).isEqualTo(turns);
  }

  /** Feeds itself for some tokens, then leaves one to the host. */
  private static final class SometimesUndecided implements LlamaEngine {
    private static final int BY_HOST = 5;
    private static final int OWN = 6;

    private final LlamaConfig config;
    private final int atOnce;
    private int turns;

    private SometimesUndecided(LlamaConfig config, int atOnce) {
      this.config = config;
      this.atOnce = atOnce;
    }

    @Override
    public LlamaConfig config() {
      return config;
    }

    @Override
    public int maxRows() {
      return 128;
    }

    @Override
    public void begin(int[] capacities) {
      turns = 0;
    }

    @Override
    public void forward(TokenBatch batch, float[][] logits) {
      for (int row = 0; row < batch.logitsRows(); row++) {
        Arrays.fill(logits[row], 0);
        logits[row][BY_HOST] = 1;
      }
    }

    @Override
    public boolean generate(Continuation continuation, TokenListener listener) {
      turns++;
      for (int sequence = 0; sequence < continuation.sequences(); sequence++) {
        for (int i = 0; i < Math.min(atOnce, continuation.remaining(sequence)); i++) {
          listener.onToken(sequence, OWN);
        }
      }
      return true;
    }

    @Override
    public long collectiveNanos() {
      return -1;
    }

    @Override
    public void close() {}
  }

  @Test
  void promptsThatTheModelCannotTakeAreRefusedWithTheNumbers() {
    refused(new int[][] {{}}, 5, "Prompt 1 has no tokens.");
    refused(new int[][] {{1}, {1, 2048}}, 5, "Prompt 2 has the token 2048");
    refused(new int[][] {{1}, {-1}}, 5, "Prompt 2 has the token -1");
    refused(
        new int[][] {prompt(500, 1)},
        13,
        "Prompt 1 has 500 tokens, and with 13 more it would be longer than the model's 512"
            + " positions.");
    refused(new int[][] {{1}}, 0, "The number of tokens to generate is 0");
  }

  private static void refused(int[][] prompts, int maxTokens, String clause) {
    DecodeRequest request = new DecodeRequest(prompts, maxTokens, false, false, Sampling.greedy());
    assertThatThrownBy(() -> request.check(LlamaConfig.read(MODEL)))
        .isInstanceOf(ModelException.class)
        .hasMessageContaining(clause);
  }

  private static int[] prompt(int length, int step) {
    return IntStream.range(0, length).map(i -> 2 + (i * step * 37) % 2000).toArray();
  }

  private static DecodeRequest request(int[][] prompts, boolean ignoreEnd, Sampling sampling) {
    return new DecodeRequest(prompts, MAX_TOKENS, ignoreEnd, false, sampling);
  }

  private static LlamaWeights weights(LlamaConfig config, int rank, int worldSize) {
    try (Checkpoint checkpoint = Checkpoint.open(MODEL)) {
      return LlamaWeights.read(checkpoint, config, Shard.of(config, rank, worldSize));
    }
  }

  private static List<List<List<Integer>>> decode(int worldSize, DecodeRequest request)
      throws Exception {
    LlamaConfig config = LlamaConfig.read(MODEL);
    return RankThreads.run(
        worldSize,
        group -> run(new CpuEngine(weights(config, group.rank(), worldSize), group), request));
  }

  private static List<List<Integer>> run(LlamaEngine engine, DecodeRequest request) {
    List<List<Integer>> tokens = new ArrayList<>();
    for (int i = 0; i < request.sequences(); i++) {
      tokens.add(new ArrayList<>());
    }
    try (engine) {
      DecodeLoop.run(engine, request, (sequence, token, logits) -> tokens.get(sequence).add(token));
    }
    return tokens;
  }
}
