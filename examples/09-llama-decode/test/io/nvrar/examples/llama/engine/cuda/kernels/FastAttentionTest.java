package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.DeviceGraph;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.driver.TensorMap;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Attention on a GPU, against float64. */
@Tag("gpu")
final class FastAttentionTest extends FastKernelContract {
  /** How often a launch is repeated, so that programmatic ones overlap. */
  private static final int REPETITIONS = 3;

  private KernelImage image;

  @BeforeEach
  void loadKernels() {
    image = image("attention");
  }

  private static AttentionCase of(
      DataType type,
      int headSize,
      int heads,
      int keyValueHeads,
      int cluster,
      Integer... positions) {
    return new AttentionCase(
        type,
        headSize,
        heads,
        keyValueHeads,
        cluster,
        List.of(positions),
        null,
        heads % 2 == 0,
        cluster % 4 != 1,
        false);
  }

  static Stream<AttentionCase> cases() {
    List<AttentionCase> cases = new ArrayList<>();
    // Every cluster, with positions around the edges of pages, warps and clusters, and idle rows.
    for (int cluster : new int[] {1, 2, 4, 8, 16}) {
      for (int headSize : new int[] {64, 128}) {
        DataType type = (cluster + headSize / 64) % 2 == 0 ? DataType.BFLOAT16 : DataType.FLOAT16;
        cases.add(of(type, headSize, 8, 2, cluster, 0, 1, 15, 16, 31, 63, 64, 65));
        cases.add(of(type, headSize, 4, 1, cluster, -1, 127, 128, -1, 1023, 1024, 500));
        cases.add(of(type, headSize, 6, 2, cluster, -1));
      }
    }
    // Every number of query heads for a key/value head.
    for (int group = 1; group <= FastAttention.MAX_GROUP; group++) {
      DataType type = group % 2 == 0 ? DataType.BFLOAT16 : DataType.FLOAT16;
      cases.add(of(type, 128, 2 * group, 2, 2, 200, 77));
      cases.add(of(type, 64, group, 1, 4, 383, 5));
    }
    // As many rows as a step may have, and long contexts.
    cases.add(of(DataType.BFLOAT16, 128, 4, 1, 1, rising(32, 40)));
    cases.add(of(DataType.FLOAT16, 64, 16, 8, 2, rising(16, 33)));
    cases.add(of(DataType.BFLOAT16, 128, 4, 1, 16, 8191));
    cases.add(of(DataType.FLOAT16, 64, 4, 1, 16, 32767));
    cases.add(of(DataType.BFLOAT16, 64, 2, 1, 1, 32000, 4));
    // Rows that are not in the order of sequences.
    cases.add(of(DataType.BFLOAT16, 128, 8, 2, 4, 100, -1, 300, 64).withSequences(3, 0, 1, 2));
    // Several rows of a sequence: a prompt's next positions.
    cases.add(
        of(DataType.BFLOAT16, 128, 8, 2, 2, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129)
            .appended(0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    cases.add(
        of(DataType.FLOAT16, 64, 4, 2, 1, 0, 1, 2, 3, 62, 63, 64, -1)
            .appended(0, 0, 0, 0, 1, 1, 1, 0));
    cases.add(
        of(DataType.BFLOAT16, 64, 16, 1, 16, rising(32, 1))
            .appended(Collections.nCopies(32, 0).toArray(new Integer[0])));
    return cases.stream();
  }

  private static Integer[] rising(int count, int step) {
    Integer[] positions = new Integer[count];
    for (int i = 0; i < count; i++) {
      positions[i] = i * step;
    }
    return positions;
  }

  @ParameterizedTest
  @MethodSource("cases")
  void everyNumberIsThatOfAttention(AttentionCase test) {
    for (boolean programmatic : new boolean[] {false, true}) {
      AttentionReference reference = new AttentionReference(test, 1);
      Step step = new Step(test, reference);
      for (int i = 0; i < REPETITIONS; i++) {
        step.enqueue(1, programmatic);
      }
      reference.compute(1);
      String what = test + (programmatic ? ", programmatic" : "");
      compare(what, test, read(step.out), reference);
      compareCache(what + ", keys", test, floats(step.cache.keys()), reference.keys());
      compareCache(what + ", values", test, floats(step.cache.values()), reference.values());
    }
  }

  private static void compare(
      String what, AttentionCase test, float[] out, AttentionReference reference) {
    Comparison comparison = new Comparison(what);
    int size = test.headSize();
    int width = test.heads() * size;
    for (int i = 0; i < out.length; i++) {
      int at = i;
      comparison.add(
          out[i],
          reference.out()[i],
          reference.allowed()[i],
          () ->
              String.format(
                  Locale.ROOT,
                  "row %d at position %d, head %d, number %d",
                  at / width,
                  test.position(at / width),
                  at % width / size,
                  at % size));
    }
    comparison.verify();
  }

  // What was added may be rounded the other way; nothing else may have changed, numbers or not.
  private static void compareCache(
      String what, AttentionCase test, float[] actual, float[] expected) {
    Comparison comparison = new Comparison(what);
    int rowsOfHead = PagedCache.PAGE_POSITIONS * test.headSize();
    for (int i = 0; i < actual.length; i++) {
      double allowed = 2.1 * roundingError(test.type()) * Math.abs(expected[i]) + 1e-4;
      if (Float.isNaN(actual[i]) != Float.isNaN(expected[i])) {
        allowed = -1;
      }
      int at = i;
      comparison.add(
          actual[i],
          expected[i],
          allowed,
          () ->
              String.format(
                  Locale.ROOT,
                  "page and head %d, position %d, number %d",
                  at / rowsOfHead,
                  at % rowsOfHead / test.headSize(),
                  at % test.headSize()));
    }
    comparison.verify();
  }

  @ParameterizedTest
  @CsvSource({"BFLOAT16, 128, 8, 2", "FLOAT16, 64, 6, 3"})
  void aChainOfProgrammaticStepsGivesTheSameBits(
      DataType type, int headSize, int heads, int keyValueHeads) {
    Chain chain = new Chain(type, headSize, heads, keyValueHeads);
    chain.run(false);
    float[] expected = chain.result();
    float[] keys = floats(chain.step.cache.keys());
    float[] values = floats(chain.step.cache.values());
    for (int i = 0; i < 10; i++) {
      chain.run(true);
      assertSame("programmatic run " + i, chain.result(), expected);
      assertSame("its keys", floats(chain.step.cache.keys()), keys);
      assertSame("its values", floats(chain.step.cache.values()), values);
    }
    chain.clear();
    try (DeviceGraph graph = device().capture(stream, () -> chain.enqueue(true))) {
      for (int i = 0; i < 10; i++) {
        chain.clear();
        graph.launch(stream);
        assertSame("graph launch " + i, chain.result(), expected);
        assertSame("its keys", floats(chain.step.cache.keys()), keys);
      }
    }
  }

  /** Two layers of projections and attention, for positions that follow each other. */
  private final class Chain {
    private static final int STEPS = 6;
    private static final int LAYERS = 2;

    private final Step step;
    private final int hidden;
    private final KernelImage gemms = image("gemm");
    private final FastGemm project;
    private final FastGemm merge;
    private final List<TensorMap> projections = new ArrayList<>();
    private final List<TensorMap> merges = new ArrayList<>();
    private final TensorMap rows;
    private final TensorMap attended;
    private final DeviceBuffer x;
    private final DeviceBuffer start;
    private final DeviceBuffer firstKeys;
    private final DeviceBuffer firstValues;
    private final List<FastAttention.Rows> positions = new ArrayList<>();

    Chain(DataType type, int headSize, int heads, int keyValueHeads) {
      AttentionCase test = of(type, headSize, heads, keyValueHeads, 4, 60, 250, -1, 700);
      step = new Step(test, new AttentionReference(test, LAYERS));
      hidden = heads * headSize;
      int batch = test.batch();
      int width = (heads + 2 * keyValueHeads) * headSize;
      Random random = new Random(9);
      project = new FastGemm(gpu, gemms, type, FastGemm.Output.OUT32, batch, width, hidden);
      merge = new FastGemm(gpu, gemms, type, FastGemm.Output.OUT, batch, hidden, hidden);
      start = buffer(type, random(random, type, batch * hidden, 1));
      x = buffer(type, new float[batch * hidden]);
      rows = project.rows(x);
      attended = merge.rows(step.out);
      for (int layer = 0; layer < LAYERS; layer++) {
        float[] weights = random(random, type, width * hidden, 1 / Math.sqrt(hidden));
        projections.add(project.weights(buffer(type, weights)));
        weights = random(random, type, hidden * hidden, 2 / Math.sqrt(hidden));
        merges.add(merge.weights(buffer(type, weights)));
      }
      firstKeys = copyOf(step.cache.keys());
      firstValues = copyOf(step.cache.values());
      for (int i = 0; i < STEPS; i++) {
        int[] now = ints(test.positions());
        for (int row = 0; row < batch; row++) {
          now[row] += now[row] < 0 ? 0 : i;
        }
        positions.add(new FastAttention.Rows(buffer(now), null));
      }
    }

    void clear() {
      stream.copy(start, x);
      stream.copy(firstKeys, step.cache.keys());
      stream.copy(firstValues, step.cache.values());
      stream.synchronize();
    }

    void enqueue(boolean programmatic) {
      for (FastAttention.Rows now : positions) {
        for (int layer = 0; layer < LAYERS; layer++) {
          // A step's first kernel lets no other begin before the step before it has ended.
          boolean overlap = programmatic && layer > 0;
          project.float32(stream, overlap, projections.get(layer), rows, step.qkv);
          step.enqueue(layer, programmatic, now);
          merge.rounded(stream, programmatic, merges.get(layer), attended, null, x);
        }
      }
    }

    void run(boolean programmatic) {
      clear();
      enqueue(programmatic);
    }

    float[] result() {
      return floats(x);
    }

    private DeviceBuffer copyOf(DeviceBuffer source) {
      DeviceBuffer copy = buffer(source.dataType(), new float[Math.toIntExact(source.count())]);
      stream.copy(source, copy);
      stream.synchronize();
      return copy;
    }
  }

  @Test
  void asManyBlocksShareARowAsRunAtOnce() {
    assertThat(FastAttention.cluster(2, 1024, 132)).isEqualTo(16);
    assertThat(FastAttention.cluster(16, 1024, 132)).isEqualTo(8);
    assertThat(FastAttention.cluster(64, 8192, 132)).isEqualTo(2);
    assertThat(FastAttention.cluster(67, 8192, 132)).isEqualTo(1);
    assertThat(FastAttention.cluster(1, 64, 132)).isEqualTo(1);
    assertThat(FastAttention.cluster(1, 65, 132)).isEqualTo(2);
  }

  @Test
  void whatIsNotServedIsRefused() {
    assertThatThrownBy(() -> step(of(DataType.BFLOAT16, 128, 17, 1, 1, 5)))
        .hasMessageContaining("at most 16 query heads");
    assertThatThrownBy(() -> step(of(DataType.BFLOAT16, 192, 2, 1, 1, 5)))
        .hasMessageContaining("heads of 64 or 128 numbers, not 192");
    assertThatThrownBy(() -> step(of(DataType.BFLOAT16, 64, 3, 2, 1, 5)))
        .hasMessageContaining("not 3 for 2");
    assertThatThrownBy(() -> step(of(DataType.BFLOAT16, 64, 2, 2, 3, 5)))
        .hasMessageContaining("a cluster has 1, 2, 4, 8 or 16 blocks, not 3");
  }

  private static int[] ints(List<Integer> values) {
    return values.stream().mapToInt(Integer::intValue).toArray();
  }

  private Step step(AttentionCase test) {
    return new Step(test, new AttentionReference(test, 1));
  }

  /** A step's memory on the GPU. */
  private final class Step {
    private final AttentionCase test;
    private final PagedCache cache;
    private final DeviceBuffer qkv;
    private final DeviceBuffer bias;
    private final DeviceBuffer rope;
    private final DeviceBuffer out;
    private final RowSquares squares;
    private final FastAttention.Rows rows;
    private final FastAttention attention;

    Step(AttentionCase test, AttentionReference reference) {
      this.test = test;
      DataType type = test.type();
      cache =
          new PagedCache(
              buffer(type, reference.keys()),
              buffer(type, reference.values()),
              AttentionReference.LAYERS,
              reference.pages(),
              test.keyValueHeads(),
              test.headSize(),
              buffer(reference.table()),
              reference.pagesOfSequence());
      attention =
          new FastAttention(
              gpu,
              image,
              cache,
              test.heads(),
              test.batch(),
              reference.pagesOfSequence() * PagedCache.PAGE_POSITIONS,
              test.cluster());
      qkv = buffer(DataType.FLOAT32, reference.qkv());
      bias = buffer(DataType.FLOAT32, reference.bias());
      rope = buffer(DataType.FLOAT32, reference.rope());
      out = output(type, test.batch() * test.heads() * test.headSize());
      squares =
          new RowSquares(
              buffer(DataType.FLOAT32, reference.squares()),
              AttentionReference.PARTS,
              AttentionReference.PARTS * 64,
              AttentionReference.EPSILON);
      rows =
          new FastAttention.Rows(
              buffer(ints(test.positions())),
              test.sequences() == null ? null : buffer(ints(test.sequences())));
    }

    void enqueue(int layer, boolean programmatic) {
      enqueue(layer, programmatic, rows);
    }

    void enqueue(int layer, boolean programmatic, FastAttention.Rows now) {
      DeviceBuffer biases = test.biased() ? bias : null;
      if (test.appended()) {
        attention.launchAppended(stream, programmatic, layer, qkv, biases, squares, rope, now, out);
      } else {
        attention.launch(stream, programmatic, layer, qkv, biases, squares, rope, now, out);
      }
    }
  }
}
