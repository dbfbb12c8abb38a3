package io.nvrar.examples.llama.engine.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.examples.llama.engine.LlamaEngine;
import io.nvrar.examples.llama.engine.RankThreads;
import io.nvrar.examples.llama.engine.TokenBatch;
import io.nvrar.examples.llama.engine.cpu.CpuEngine;
import io.nvrar.examples.llama.generate.DecodeLoop;
import io.nvrar.examples.llama.generate.DecodeRequest;
import io.nvrar.examples.llama.generate.Sampling;
import io.nvrar.examples.llama.weights.LlamaConfig;
import io.nvrar.examples.llama.weights.LlamaWeights;
import io.nvrar.examples.llama.weights.RandomTensors;
import io.nvrar.examples.llama.weights.ReferenceModel;
import io.nvrar.examples.llama.weights.Shard;
import io.nvrar.examples.llama.weights.TensorSource;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Steps that feed themselves give what steps give one by one, and what the CPU gives. */
@Tag("gpu")
final class CudaDecodeTest {
  private static final String PLAIN = "model/tiny-english";
  private static final String FAST = "test-models/seeded64";
  private static final int MAX_TOKENS = 37;

  // Together more rows than one prefill step takes; an end in the middle of a page, and at its end.
  private static final int[][] PROMPTS = {
    prompt(3, 1), prompt(110, 7), prompt(1, 3), prompt(64, 5), prompt(9, 11)
  };

  @Test
  void theGreedyTextOfTheShippedModelIsThatOfTheCpu() throws Exception {
    DecodeRequest request = request(PROMPTS, 200, true, Sampling.greedy());
    ReferenceModel model = ReferenceModel.of(PLAIN);
    List<List<Integer>> onCpu =
        RankThreads.run(
                1,
                group -> {
                  Shard shard = Shard.of(model.config(), 0, 1);
                  try (TensorSource tensors = model.tensors();
                      LlamaEngine engine =
                          new CpuEngine(LlamaWeights.read(tensors, model.config(), shard), group)) {
                    return tokens(engine, request);
                  }
                })
            .get(0);
    for (int worldSize : new int[] {1, 2, 4}) {
      assertThat(decode(PLAIN, worldSize, CudaEngine.Settings.DEFAULT, request).get(0))
          .as("%d ranks", worldSize)
          .isEqualTo(onCpu);
    }
  }

  @ParameterizedTest(name = "{0} on {1} ranks at temperature {2}")
  @CsvSource({
    PLAIN + ", 1, 0",
    PLAIN + ", 2, 0",
    PLAIN + ", 4, 0.8",
    PLAIN + ", 8, 0",
    FAST + ", 1, 0",
    FAST + ", 1, 0.8",
    FAST + ", 2, 0",
    FAST + ", 4, 0.8"
  })
  void replaysOfAGraphGiveTheTokensOfStepsOneByOneOnAllRanks(
      String name, int worldSize, double temperature) throws Exception {
    DecodeRequest request =
        request(PROMPTS, MAX_TOKENS, true, new Sampling(temperature, 0, 1, 12345));
    List<List<List<Integer>>> replayed =
        decode(name, worldSize, CudaEngine.Settings.DEFAULT, request);
    assertThat(replayed).allSatisfy(rank -> assertThat(rank).isEqualTo(replayed.get(0)));
    assertThat(replayed.get(0)).allSatisfy(tokens -> assertThat(tokens).hasSize(MAX_TOKENS));
    assertThat(
            decode(
                name,
                worldSize,
                new CudaEngine.Settings(true, false, Prefill.automatic()),
                request))
        .as("without a graph")
        .isEqualTo(replayed);
  }

  @ParameterizedTest
  @CsvSource({PLAIN, FAST})
  void stepsThatFeedThemselvesGiveTheGreatestLogitsOfStepsThatTheHostFeeds(String name)
      throws Exception {
    DecodeRequest fed = new DecodeRequest(PROMPTS, MAX_TOKENS, true, true, Sampling.greedy());
    assertThat(
            decode(
                    name,
                    1,
                    CudaEngine.Settings.DEFAULT,
                    request(PROMPTS, MAX_TOKENS, true, Sampling.greedy()))
                .get(0))
        .isEqualTo(decode(name, 1, CudaEngine.Settings.DEFAULT, fed).get(0));
  }

  @Test
  void promptsOfDifferentLengthsInOneBatchGiveWhatEachGivesAlone() throws Exception {
    List<List<Integer>> together =
        decode(
                PLAIN,
                2,
                CudaEngine.Settings.DEFAULT,
                request(PROMPTS, MAX_TOKENS, true, Sampling.greedy()))
            .get(0);
    for (int i = 0; i < PROMPTS.length; i++) {
      DecodeRequest single = request(new int[][] {PROMPTS[i]}, MAX_TOKENS, true, Sampling.greedy());
      assertThat(decode(PLAIN, 2, CudaEngine.Settings.DEFAULT, single).get(0).get(0))
          .isEqualTo(together.get(i));
    }
  }

  @Test
  void aSequenceStopsAtItsEndTokenWhileTheOthersGoOn() throws Exception {
    ReferenceModel model = ReferenceModel.of(PLAIN);
    List<List<Integer>> free =
        decode(
                PLAIN,
                2,
                CudaEngine.Settings.DEFAULT,
                request(PROMPTS, MAX_TOKENS, true, Sampling.greedy()))
            .get(0);
    // What the first sequence generates in its second block for the first time is declared an end
    // token.
    List<Integer> first = free.get(0);
    int end =
        IntStream.range(9, 17)
            .filter(i -> first.indexOf(first.get(i)) == i)
            .map(first::get)
            .findFirst()
            .orElseThrow();
    List<List<List<Integer>>> stopped =
        decode(
            model,
            ReferenceModel.withEnd(model.config(), end),
            2,
            CudaEngine.Settings.DEFAULT,
            false,
            request(PROMPTS, MAX_TOKENS, false, Sampling.greedy()));
    for (int i = 0; i < PROMPTS.length; i++) {
      int at = free.get(i).indexOf(end);
      assertThat(stopped.get(0).get(i))
          .as("sequence %d", i)
          .isEqualTo(at < 0 ? free.get(i) : free.get(i).subList(0, at + 1));
    }
    assertThat(stopped.get(1)).isEqualTo(stopped.get(0));
  }

  // Of the last but one, which are nearly even, more tokens are needed than steps look at; the last
  // is for the host.
  @ParameterizedTest(name = "{0} on {1} ranks at temperature {2}, the likeliest {3} of {4}")
  @CsvSource({
    PLAIN + ", 1, 1.0, 50, 0.95",
    PLAIN + ", 2, 1.0, 50, 0.95",
    PLAIN + ", 4, 0.8, 0, 0.9",
    FAST + ", 1, 0.8, 0, 0.9",
    FAST + ", 2, 1.0, 40, 0.95",
    FAST + ", 2, 9.0, 0, 0.99",
    PLAIN + ", 2, 1.0, 1500, 0.95",
  })
  void tokensAmongTheLikeliestAreTheSameOnAllRanksAndWithoutAGraph(
      String name, int worldSize, double temperature, int topK, double topP) throws Exception {
    DecodeRequest request =
        request(PROMPTS, MAX_TOKENS, true, new Sampling(temperature, topK, topP, 12345));
    List<List<List<Integer>>> ranks = decode(name, worldSize, CudaEngine.Settings.DEFAULT, request);
    assertThat(ranks).allSatisfy(rank -> assertThat(rank).isEqualTo(ranks.get(0)));
    assertThat(ranks.get(0)).allSatisfy(tokens -> assertThat(tokens).hasSize(MAX_TOKENS));
    assertThat(
            decode(
                name,
                worldSize,
                new CudaEngine.Settings(true, false, Prefill.automatic()),
                request))
        .as("without a graph")
        .isEqualTo(ranks);
  }

  // About one row of seven needs more tokens than steps look at, and the host chooses among all.
  @Test
  void tokensBehindOneThatTheHostChoseAreAmongTheLikeliestOfTheirText() throws Exception {
    double temperature = 1;
    double topP = 0.95;
    DecodeRequest request =
        request(PROMPTS, MAX_TOKENS, true, new Sampling(temperature, 0, topP, 12345));
    ReferenceModel model = ReferenceModel.of(PLAIN);
    GpuRanks.run(
        2,
        model.config(),
        model::tensors,
        CudaEngine.Settings.DEFAULT,
        (engine, isFast) -> {
          List<List<Integer>> tokens = new ArrayList<>();
          AtomicLong byHost = new AtomicLong();
          for (int i = 0; i < PROMPTS.length; i++) {
            tokens.add(new ArrayList<>());
          }
          DecodeLoop.run(
              engine,
              request,
              (sequence, token, logits) -> {
                byHost.addAndGet(logits.length > 0 ? 1 : 0);
                tokens.get(sequence).add(token);
              });
          assertThat(byHost)
              .as("tokens that the host chose, of %d", PROMPTS.length * MAX_TOKENS)
              .hasValueBetween(2L * PROMPTS.length, PROMPTS.length * (MAX_TOKENS - 2L));
          engine.begin(request.capacities());
          for (int i = 0; i < PROMPTS.length; i++) {
            float[][] logits = logitsOf(engine, i, PROMPTS[i], tokens.get(i));
            for (int at = 0; at < MAX_TOKENS; at++) {
              assertThat(weightAbove(logits[at], tokens.get(i).get(at), temperature))
                  .as("token %d of sequence %d", at, i)
                  .isLessThan(topP);
            }
          }
          return 0;
        });
  }

  /** The logits behind each token of a text, when the tokens before it are given. */
  private static float[][] logitsOf(
      LlamaEngine engine, int sequence, int[] prompt, List<Integer> tokens) {
    float[][] logits = new float[tokens.size()][engine.config().vocabularySize()];
    TokenBatch batch = new TokenBatch(engine.maxRows());
    for (int at = 0; at < prompt.length + tokens.size() - 1; at++) {
      int next = at - prompt.length + 1;
      batch.add(sequence, at < prompt.length ? prompt[at] : tokens.get(next - 1), next >= 0);
      if (next >= 0 || batch.isFull()) {
        engine.forward(batch, next < 0 ? new float[0][] : new float[][] {logits[next]});
        batch.clear();
      }
    }
    return logits;
  }

  // Logits of another batch differ a little, so nearly equal ones do not count.
  private static double weightAbove(float[] logits, int token, double temperature) {
    double total = 0;
    double above = 0;
    for (float logit : logits) {
      double weight = Math.exp((logit - logits[token]) / temperature);
      total += weight;
      above += logit > logits[token] + 0.1 ? weight : 0;
    }
    return above / total;
  }

  @ParameterizedTest(name = "{0}, the likeliest {1} of {2}")
  @CsvSource({PLAIN + ", 1, 1", FAST + ", 1, 1", PLAIN + ", 0, 1e-9", FAST + ", 0, 1e-9"})
  void theLikeliestAloneIsTheGreatest(String name, int topK, double topP) throws Exception {
    List<List<List<Integer>>> drawn =
        decode(
            name,
            2,
            CudaEngine.Settings.DEFAULT,
            request(PROMPTS, MAX_TOKENS, true, new Sampling(1.0, topK, topP, 7)));
    assertThat(drawn)
        .isEqualTo(
            decode(
                name,
                2,
                CudaEngine.Settings.DEFAULT,
                request(PROMPTS, MAX_TOKENS, true, Sampling.greedy())));
  }

  @ParameterizedTest
  @CsvSource({PLAIN + ", 40", FAST + ", 40", FAST + ", 64"})
  void manySequencesDecodeTogether(String name, int sequences) throws Exception {
    int[][] prompts =
        IntStream.range(0, sequences).mapToObj(i -> prompt(1 + i % 5, i + 1)).toArray(int[][]::new);
    List<List<Integer>> all =
        decode(
                name,
                1,
                CudaEngine.Settings.DEFAULT,
                request(prompts, MAX_TOKENS, true, Sampling.greedy()))
            .get(0);
    assertThat(all).hasSize(sequences).allSatisfy(row -> assertThat(row).hasSize(MAX_TOKENS));
    List<List<Integer>> byHost =
        decode(
                name,
                1,
                CudaEngine.Settings.DEFAULT,
                new DecodeRequest(prompts, MAX_TOKENS, true, true, Sampling.greedy()))
            .get(0);
    assertThat(all).isEqualTo(byHost);
  }

  @Test
  void anEngineDecodesOneRequestAfterAnother() throws Exception {
    ReferenceModel model = ReferenceModel.of(PLAIN);
    DecodeRequest request = request(PROMPTS, MAX_TOKENS, true, Sampling.greedy());
    DecodeRequest other = request(new int[][] {prompt(5, 2)}, MAX_TOKENS, true, Sampling.greedy());
    List<List<List<Integer>>> results =
        GpuRanks.run(
                1,
                model.config(),
                model::tensors,
                CudaEngine.Settings.DEFAULT,
                (engine, isFast) -> {
                  List<List<Integer>> first = tokens(engine, request);
                  tokens(engine, other);
                  return List.of(first, tokens(engine, request));
                })
            .get(0);
    assertThat(results.get(1)).isEqualTo(results.get(0));
  }

  @Test
  void aDecodeThatWasAbortedLeavesNoTokenForTheNext() throws Exception {
    ReferenceModel model = ReferenceModel.of(PLAIN);
    DecodeRequest request = request(PROMPTS, MAX_TOKENS, true, Sampling.greedy());
    DecodeRequest other =
        request(new int[][] {prompt(5, 2), prompt(6, 4)}, MAX_TOKENS, true, Sampling.greedy());
    List<List<List<Integer>>> results =
        GpuRanks.run(
                1,
                model.config(),
                model::tensors,
                CudaEngine.Settings.DEFAULT,
                (engine, isFast) -> {
                  List<List<Integer>> first = tokens(engine, request);
                  AtomicLong heard = new AtomicLong();
                  assertThatThrownBy(
                          () ->
                              DecodeLoop.run(
                                  engine,
                                  other,
                                  (sequence, token, logits) -> {
                                    if (heard.incrementAndGet() == 20) {
                                      throw new IllegalStateException("aborted");
                                    }
                                  }))
                      .hasMessage("aborted");
                  return List.of(first, tokens(engine, request));
                })
            .get(0);
    assertThat(results.get(1)).isEqualTo(results.get(0));
  }

  @Test
  void aContextThatDoesNotFitIsRefusedWithTheBytesThatAreMissing() throws Exception {
    GpuRanks.assumeRoomFor(1);
    ReferenceModel model = ReferenceModel.of(PLAIN);
    int[] capacities = IntStream.range(0, 1 << 20).map(i -> 512).toArray();
    AtomicLong read = new AtomicLong();
    assertThatThrownBy(
            () ->
                GpuRanks.run(
                    1,
                    model.config(),
                    () -> new RandomTensors(model.config(), 0, read::addAndGet),
                    CudaEngine.Settings.DEFAULT,
                    new int[][] {capacities},
                    (engine, isFast) -> 0))
        .hasMessageMatching(
            "The rank's weights take \\d+ bytes, the keys and values of 1048576 sequences of up to 512 tokens \\d+ and their steps \\d+, \\d+ together, and GPU 0 of rank 0 has \\d+ free: \\d+ bytes are missing\\.");
    assertThat(read).as("bytes read").hasValue(0);
    assertThatThrownBy(
            () ->
                GpuRanks.run(
                    1,
                    model.config(),
                    model::tensors,
                    CudaEngine.Settings.DEFAULT,
                    (engine, isFast) -> {
                      engine.begin(capacities);
                      return 0;
                    }))
        .hasMessageMatching(
            "The keys and values of 1048576 sequences of up to 512 tokens, and their steps, take \\d+ bytes, and GPU 0 of rank 0 has \\d+ free: \\d+ bytes are missing\\.");
  }

  private static int[] prompt(int length, int step) {
    return IntStream.range(0, length).map(i -> 2 + (i * step * 37) % 2000).toArray();
  }

  private static DecodeRequest request(
      int[][] prompts, int maxTokens, boolean ignoreEnd, Sampling sampling) {
    return new DecodeRequest(prompts, maxTokens, ignoreEnd, false, sampling);
  }

  private static List<List<List<Integer>>> decode(
      String name, int worldSize, CudaEngine.Settings settings, DecodeRequest request)
      throws Exception {
    ReferenceModel model = ReferenceModel.of(name);
    boolean wantsFast = name.equals(FAST) && GpuRanks.areDataCentreGpus();
    return decode(model, model.config(), worldSize, settings, wantsFast, request);
  }

  private static List<List<List<Integer>>> decode(
      ReferenceModel model,
      LlamaConfig config,
      int worldSize,
      CudaEngine.Settings settings,
      boolean wantsFast,
      DecodeRequest request)
      throws Exception {
    return GpuRanks.run(
        worldSize,
        config,
        model::tensors,
        settings,
        (engine, isFast) -> {
          assertThat(isFast).as("by the fast kernels").isEqualTo(wantsFast);
          return tokens(engine, request);
        });
  }

  private static List<List<Integer>> tokens(LlamaEngine engine, DecodeRequest request) {
    List<List<Integer>> tokens = new ArrayList<>();
    for (int i = 0; i < request.sequences(); i++) {
      tokens.add(new ArrayList<>());
    }
    DecodeLoop.run(engine, request, (sequence, token, logits) -> tokens.get(sequence).add(token));
    return tokens;
  }
}
