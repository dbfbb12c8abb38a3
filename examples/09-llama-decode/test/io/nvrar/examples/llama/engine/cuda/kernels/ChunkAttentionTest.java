package io.nvrar.examples.llama.engine.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.examples.llama.engine.cuda.driver.KernelImage;
import io.nvrar.examples.llama.engine.cuda.kernels.ChunkKernels.Place;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Rotation, append and causal attention of a chunk on a GPU, against float64. */
@Tag("gpu")
final class ChunkAttentionTest extends FastKernelContract {
  private static final int LAYERS = 2;
  private static final int LAYER = 1;
  private static final int PAGE = PagedCache.PAGE_POSITIONS;
  private static final int REPETITIONS = 3;

  private KernelImage image;

  @BeforeEach
  void loadKernels() {
    image = image("prefill");
  }

  /** Rows of one sequence that follow each other. */
  record Run(int sequence, int position, int rows) {}

  record Case(
      DataType type,
      int headSize,
      int heads,
      int keyValueHeads,
      int rowsOfTile,
      boolean biased,
      List<Run> runs) {
    List<Place> places() {
      List<Place> places = new ArrayList<>();
      for (Run run : runs) {
        for (int i = 0; i < run.rows(); i++) {
          places.add(new Place(run.sequence(), run.position() + i));
        }
      }
      return places;
    }
  }

  static Stream<Case> cases() {
    List<Case> cases = new ArrayList<>();
    int i = 0;
    for (DataType type : new DataType[] {DataType.BFLOAT16, DataType.FLOAT16}) {
      for (int headSize : new int[] {64, 128}) {
        for (int rowsOfTile : new int[] {64, 128}) {
          // From the first position; one row; the edges of warps, tiles and pages.
          for (int rows : new int[] {1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 300}) {
            cases.add(of(type, headSize, 4, 2, rowsOfTile, i++, new Run(0, 0, rows)));
          }
          // Behind a context, whose end is anywhere in a page.
          for (int position : new int[] {1, 40, 63, 64, 65, 500}) {
            cases.add(of(type, headSize, 3, 1, rowsOfTile, i++, new Run(0, position, 130)));
          }
          // Several sequences, of which one comes twice.
          cases.add(
              of(
                  type,
                  headSize,
                  8,
                  8,
                  rowsOfTile,
                  i++,
                  new Run(2, 0, 70),
                  new Run(0, 100, 3),
                  new Run(1, 7, 140),
                  new Run(0, 103, 66),
                  new Run(3, 0, 1)));
        }
      }
    }
    cases.add(of(DataType.BFLOAT16, 128, 2, 1, 128, 0, new Run(0, 4000, 256)));
    return cases.stream();
  }

  private static Case of(
      DataType type,
      int headSize,
      int heads,
      int keyValueHeads,
      int rowsOfTile,
      int number,
      Run... runs) {
    return new Case(
        type, headSize, heads, keyValueHeads, rowsOfTile, number % 2 == 1, List.of(runs));
  }

  @ParameterizedTest
  @MethodSource("cases")
  void everyNumberIsThatOfAttention(Case test) {
    Reference reference = new Reference(test);
    for (boolean programmatic : new boolean[] {false, true}) {
      ChunkKernels kernels =
          new ChunkKernels(gpu, image, test.type(), test.headSize(), programmatic);
      List<Place> places = test.places();
      int[] tiles = ChunkKernels.divided(places, test.rowsOfTile());
      PagedCache cache =
          new PagedCache(
              buffer(test.type(), reference.keysBefore),
              buffer(test.type(), reference.valuesBefore),
              LAYERS,
              reference.pages,
              test.keyValueHeads(),
              test.headSize(),
              buffer(reference.table),
              reference.pagesOfSequence);
      ChunkKernels.Rows rows =
          new ChunkKernels.Rows(
              places.size(),
              buffer(places.stream().mapToInt(Place::position).toArray()),
              buffer(places.stream().mapToInt(Place::sequence).toArray()),
              buffer(DataType.FLOAT32, reference.angles),
              buffer(tiles),
              tiles.length / ChunkKernels.TILE_INTS,
              test.rowsOfTile());
      DeviceBuffer out = output(test.type(), places.size() * test.heads() * test.headSize());
      DeviceBuffer bias = test.biased() ? buffer(DataType.FLOAT32, reference.bias) : null;
      for (int i = 0; i < REPETITIONS; i++) {
        DeviceBuffer qkv = buffer(test.type(), reference.qkv);
        kernels.rotate(stream, rows, cache, LAYER, test.heads(), qkv, bias);
        kernels.attend(stream, rows, cache, LAYER, test.heads(), qkv, out);
        stream.synchronize();
      }
      String what = test + (programmatic ? ", programmatic" : "");
      reference.compare(what, read(out));
      reference.compareCache(what + ", keys", floats(cache.keys()), reference.keys);
      reference.compareCache(what + ", values", floats(cache.values()), reference.values);
    }
  }

  /** The chunk in float64. All memory that belongs to no position so far holds no numbers. */
  private static final class Reference {
    private final Case test;
    private final List<Place> places;
    private final int pagesOfSequence;
    private final int pages;
    private final int[] table;
    private final float[] keysBefore;
    private final float[] valuesBefore;
    private final float[] keys;
    private final float[] values;
    private final float[] qkv;
    private final float[] bias;
    private final float[] angles;
    private final double[] out;
    private final double[] allowed;

    Reference(Case test) {
      this.test = test;
      places = test.places();
      int longest = places.stream().mapToInt(Place::position).max().orElseThrow();
      int sequences = 1 + places.stream().mapToInt(Place::sequence).max().orElseThrow();
      pagesOfSequence = longest / PAGE + 1;
      pages = sequences * pagesOfSequence + 3;
      Random random = new Random(test.toString().hashCode());
      List<Integer> order = new ArrayList<>(IntStream.range(0, pages).boxed().toList());
      Collections.shuffle(order, random);
      table = IntStream.range(0, sequences * pagesOfSequence).map(order::get).toArray();
      int size = test.headSize();
      keysBefore = new float[LAYERS * pages * test.keyValueHeads() * PAGE * size];
      valuesBefore = new float[keysBefore.length];
      Arrays.fill(keysBefore, Float.NaN);
      Arrays.fill(valuesBefore, Float.NaN);
      for (Run run : test.runs()) {
        for (int position = 0; position < run.position(); position++) {
          for (int head = 0; head < test.keyValueHeads(); head++) {
            int at = place(run.sequence(), position, head);
            if (Float.isNaN(keysBefore[at])) {
              System.arraycopy(random(random, test.type(), size, 1), 0, keysBefore, at, size);
              System.arraycopy(random(random, test.type(), size, 1), 0, valuesBefore, at, size);
            }
          }
        }
      }
      // What a later run of the same sequence adds is not there before.
      for (Place place : places) {
        for (int head = 0; head < test.keyValueHeads(); head++) {
          int at = place(place.sequence(), place.position(), head);
          Arrays.fill(keysBefore, at, at + size, Float.NaN);
          Arrays.fill(valuesBefore, at, at + size, Float.NaN);
        }
      }
      int width = (test.heads() + 2 * test.keyValueHeads()) * size;
      // Queries are large, so that each looks at few positions and one that is missing shows.
      qkv = random(random, test.type(), places.size() * width, 1);
      for (int i = 0; i < qkv.length; i++) {
        qkv[i] *= i % width < test.heads() * size ? 2 : 1;
      }
      bias = random(random, DataType.FLOAT32, width, 0.5);
      angles = new float[pagesOfSequence * PAGE * size];
      for (int position = 0; position < pagesOfSequence * PAGE; position++) {
        for (int i = 0; i < size / 2; i++) {
          double angle = position * Math.pow(10000, -2.0 * i / size);
          angles[position * size + 2 * i] = (float) Math.cos(angle);
          angles[position * size + 2 * i + 1] = (float) Math.sin(angle);
        }
      }
      keys = keysBefore.clone();
      values = valuesBefore.clone();
      for (int row = 0; row < places.size(); row++) {
        for (int head = 0; head < test.keyValueHeads(); head++) {
          int at = place(places.get(row).sequence(), places.get(row).position(), head);
          projected(row, test.heads() + head, true, keys, at);
          projected(row, test.heads() + test.keyValueHeads() + head, false, values, at);
        }
      }
      out = new double[places.size() * test.heads() * size];
      allowed = new double[out.length];
      IntStream.range(0, places.size() * test.heads())
          .parallel()
          .forEach(i -> attend(i / test.heads(), i % test.heads()));
    }

    private int place(int sequence, int position, int head) {
      int page = table[sequence * pagesOfSequence + position / PAGE];
      int pageAndHead = (LAYER * pages + page) * test.keyValueHeads() + head;
      return (pageAndHead * PAGE + position % PAGE) * test.headSize();
    }

    private void projected(int row, int head, boolean turned, float[] to, int at) {
      int size = test.headSize();
      int width = (test.heads() + 2 * test.keyValueHeads()) * size;
      int half = size / 2;
      int angle = places.get(row).position() * size;
      for (int i = 0; i < half; i++) {
        double first = qkv[row * width + head * size + i];
        double second = qkv[row * width + head * size + i + half];
        if (test.biased()) {
          first += bias[head * size + i];
          second += bias[head * size + i + half];
        }
        double cosine = turned ? angles[angle + 2 * i] : 1;
        double sine = turned ? angles[angle + 2 * i + 1] : 0;
        to[at + i] = rounded(test.type(), (float) (first * cosine - second * sine));
        to[at + i + half] = rounded(test.type(), (float) (second * cosine + first * sine));
      }
    }

    private void attend(int row, int head) {
      int size = test.headSize();
      int count = places.get(row).position() + 1;
      int sequence = places.get(row).sequence();
      int keyValueHead = head / (test.heads() / test.keyValueHeads());
      float[] query = new float[size];
      projected(row, head, true, query, 0);
      double[] scores = new double[count];
      for (int position = 0; position < count; position++) {
        int at = place(sequence, position, keyValueHead);
        double sum = 0;
        for (int i = 0; i < size; i++) {
          sum += (double) query[i] * keys[at + i];
        }
        scores[position] = sum / Math.sqrt(size);
      }
      double greatest = Arrays.stream(scores).max().orElseThrow();
      double total = 0;
      double[] sums = new double[size];
      double[] magnitudes = new double[size];
      for (int position = 0; position < count; position++) {
        double weight = Math.exp(scores[position] - greatest);
        int at = place(sequence, position, keyValueHead);
        total += weight;
        for (int i = 0; i < size; i++) {
          sums[i] += weight * values[at + i];
          magnitudes[i] += weight * Math.abs(values[at + i]);
        }
      }
      double rounding = roundingError(test.type());
      int at = (row * test.heads() + head) * size;
      for (int i = 0; i < size; i++) {
        out[at + i] = sums[i] / total;
        // The weights and the result are rounded; a number of the query or of what is added may be
        // rounded the other way.
        allowed[at + i] =
            rounding * (2.5 * magnitudes[i] / total + 1.1 * Math.abs(out[at + i])) + 2e-4;
      }
    }

    void compare(String what, float[] actual) {
      assertThat(actual).hasSameSizeAs(out);
      Comparison comparison = new Comparison(what);
      int width = test.heads() * test.headSize();
      for (int i = 0; i < actual.length; i++) {
        int at = i;
        comparison.add(
            actual[i],
            out[i],
            allowed[i],
            () ->
                String.format(
                    Locale.ROOT,
                    "row %d, %s, head %d, number %d",
                    at / width,
                    places.get(at / width),
                    at % width / test.headSize(),
                    at % test.headSize()));
      }
      comparison.verify();
    }

    // What was added may be rounded the other way; nothing else may have changed, numbers or not.
    void compareCache(String what, float[] actual, float[] expected) {
      Comparison comparison = new Comparison(what);
      for (int i = 0; i < actual.length; i++) {
        double allowed = 2.1 * roundingError(test.type()) * Math.abs(expected[i]) + 1e-4;
        if (Float.isNaN(actual[i]) != Float.isNaN(expected[i])) {
          allowed = -1;
        }
        int at = i;
        comparison.add(actual[i], expected[i], allowed, () -> "element " + at);
      }
      comparison.verify();
    }
  }
}
