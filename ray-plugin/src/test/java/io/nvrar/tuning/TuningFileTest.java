package io.nvrar.tuning;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.Algorithm;
import io.nvrar.DataType;
import io.nvrar.TuningTable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A table is read as it stands there, or refused in one sentence that says where. */
class TuningFileTest {
  private static final String RULE = "{'bytesMax': 8, 'algorithm': 'ONE_SHOT'}";

  @TempDir private Path directory;

  private Path file(String json) throws IOException {
    return Files.writeString(directory.resolve("tuning.json"), json.replace('\'', '"'));
  }

  @Test
  void theRulesComeInTheirOrderWithWhatIsLeftOutMatchingAnything() throws IOException {
    Path file =
        file(
            """
            {'version': 1, 'rules': [
              {'dataType': 'BFLOAT16', 'worldSize': 4, 'gpusPerNode': 2, 'bytesMax': 65536, 'algorithm': 'HIERARCHICAL'},
              {'algorithm': 'TWO_SHOT', 'bytesMax': 9223372036854775807}
            ]}
            """);
    assertThat(TuningFile.read(file).rules())
        .containsExactly(
            new TuningTable.Rule(DataType.BFLOAT16, 4, 2, 65536, Algorithm.HIERARCHICAL),
            new TuningTable.Rule(null, 0, 0, Long.MAX_VALUE, Algorithm.TWO_SHOT));
    assertThat(TuningFile.read(file("{'rules': [], 'version': 1}"))).isEqualTo(TuningTable.none());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "`` | the file ends too early (line 1 column 1 at $)",
        "{'version': 1, 'rules': [ | the file ends too early (line 1 column 26 at $.rules[0])",
        "nonsense | not JSON (line 1 column 1 at $)",
        "[] | found an array where an object is required (line 1 column 2 at $)",
        "{'version': 2, 'rules': []} | it has version 2, this library reads version 1 (line 1 column 14 at $.version)",
        "{'rules': []} | it has no version, this library reads 1 (line 1 column 14 at $)",
        "{'version': 1} | it has no rules, a table needs an array of them (line 1 column 15 at $)",
        "{'version': 1, 'version': 1} | 'version' appears twice (line 1 column 25 at $.version)",
        "{'version': 1, 'rules': [], 'x': 1} | unknown field 'x', known are version, rules, madeBy (line 1 column 32 at $.x)",
        "{'version': 1, 'rules': []} {} | not JSON (line 1 column 30 at $)",
        "{'version': '1', 'rules': []} | found a string where a number is required (line 1 column 14 at $.version)",
        "{'version': 1, 'rules': [[]]} | found an array where an object is required (line 1 column 27 at $.rules[0])",
        "{'version': 1, 'rules': [{}]} | a rule has no bytesMax, every rule needs one (line 1 column 28 at $.rules[0].)",
        "{'version': 1, 'rules': [{'bytesMax': 8}]} | a rule has no algorithm, every rule needs one (line 1 column 41 at $.rules[0].bytesMax)",
        "{'version': 1, 'rules': [{'bytesMax': 0, 'algorithm': 'ONE_SHOT'}]} | a rule's bytesMax is 0, must be 1 or more (line 1 column 66 at $.rules[0].algorithm)",
        "{'version': 1, 'rules': [{'bytesMax': 1.0}]} | 1.0 is not a 64-bit integer (line 1 column 42 at $.rules[0].bytesMax)",
        "{'version': 1, 'rules': [{'bytesMax': 1e3}]} | 1e3 is not a 64-bit integer (line 1 column 42 at $.rules[0].bytesMax)",
        "{'version': 1, 'rules': [{'bytesMax': 9223372036854775808}]} | 9223372036854775808 is not a 64-bit integer (line 1 column 58 at $.rules[0].bytesMax)",
        "{'version': 1, 'rules': [{'worldSize': 2147483648}]} | 2147483648 is too large, the limit is 2147483647 (line 1 column 50 at $.rules[0].worldSize)",
        "{'version': 1, 'rules': [{'worldSize': -1, 'bytesMax': 8, 'algorithm': 'ONE_SHOT'}]} | a rule's worldSize is -1, must be 0 or more (line 1 column 83 at $.rules[0].algorithm)",
        "{'version': 1, 'rules': [{'dataType': 'fp32'}]} | 'fp32' is not one of [INT8, UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16] (line 1 column 45 at $.rules[0].dataType)",
        "{'version': 1, 'rules': [{'dataType': null}]} | found a null where a string is required (line 1 column 43 at $.rules[0].dataType)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'AUTO'}]} | a rule's algorithm is AUTO, must be ONE_SHOT, TWO_SHOT or HIERARCHICAL (line 1 column 62 at $.rules[0].algorithm)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'ONE_SHOT', 'blocks': 1025}]} | a rule's blocks is 1025, must be 0 to 1024 (line 1 column 82 at $.rules[0].blocks)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'ONE_SHOT', 'tiles': -1}]} | a rule's tiles is -1, must be 0 to 32 (line 1 column 79 at $.rules[0].tiles)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'ONE_SHOT', 'threads': 48}]} | a rule's threads is 48, must be a multiple of 32 (line 1 column 81 at $.rules[0].threads)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'ONE_SHOT', 'threads': 64, 'tiles': 2}]} | a rule has both threads (64) and tiles (2), and each follows from the other (line 1 column 93 at $.rules[0].tiles)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'ONE_SHOT', 'architecture': 'H100'}]} | a rule's architecture is 'H100', must be x86_64, or sm_ with a compute capability such as sm_90 (line 1 column 90 at $.rules[0].architecture)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'algorithm': 'ONE_SHOT', 'collective': 'REDUCE'}]} | a rule for REDUCE has the algorithm ONE_SHOT, and only ALL_REDUCE has a choice (line 1 column 90 at $.rules[0].collective)",
        "{'version': 1, 'rules': [{'bytesMax': 8, 'collective': 'BARRIER'}]} | 'BARRIER' is not one of [ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE, REDUCE_SCATTER, ALL_TO_ALL] (line 1 column 65 at $.rules[0].collective)",
        "{'1024': {'num_blocks': 8}, 'rules': []} | unknown field 'rules', known are sizes in bytes, as in NVRAR's tables (line 1 column 36 at $.rules)",
        "{'rules': [], '1024': {}} | unknown field '1024', known are version, rules, madeBy (line 1 column 21 at $.1024)",
        "{'1024': {'blocks': 8}} | unknown field 'blocks', known are num_blocks, threads_per_block, chunk_bytes, algorithm, dtype, avg_time_ms (line 1 column 19 at $.1024.blocks)",
        "{'1024': {'algorithm': 'ring'}} | 'ring' is not NVRAR's algorithm, recursive (line 1 column 30 at $.1024.algorithm)",
        "{'1024': {'dtype': 'fp8'}} | 'fp8' is no data type (line 1 column 25 at $.1024.dtype)",
        "{'1024': {}, '1024': {}} | '1024' appears twice (line 1 column 20 at $.1024)",
        "{'version': 1, 'rules': [{'bytes': 8}]} | unknown field 'bytes', known are collective, dataType, worldSize, gpusPerNode, architecture, bytesMax, algorithm, blocks, threads, tiles (line 1 column 34 at $.rules[0].bytes)",
      })
  void aMistakeIsNamedWithItsPlace(String json, String sentence) throws IOException {
    Path file = file(json);
    assertThatThrownBy(() -> TuningFile.read(file))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            String.format(Locale.ROOT, "the tuning file %s cannot be used: %s", file, sentence));
  }

  @Test
  void whatIsWrittenIsReadAgain() {
    TuningTable table =
        TuningTable.of(
            List.of(
                new TuningTable.Rule(
                    DataType.FLOAT16,
                    2,
                    2,
                    4096,
                    Algorithm.TWO_SHOT,
                    TuningTable.Collective.ALL_REDUCE,
                    "sm_90",
                    new TuningTable.LaunchShape(16, 0, 4)),
                new TuningTable.Rule(
                    null,
                    0,
                    0,
                    Long.MAX_VALUE,
                    Algorithm.AUTO,
                    TuningTable.Collective.ALL_TO_ALL,
                    "x86_64",
                    new TuningTable.LaunchShape(0, 512, 0))));
    Path file = directory.resolve("written.json");
    TuningFile.write(file, table, "a test, with \"quotes\"");
    assertThat(TuningFile.read(file)).isEqualTo(table);
    TuningFile.write(file, TuningTable.none(), "again");
    assertThat(TuningFile.read(file)).isEqualTo(TuningTable.none());
    assertThat(directory.toFile().list()).containsExactly("written.json");
    Path nowhere = directory.resolve("missing").resolve("written.json");
    assertThatThrownBy(() -> TuningFile.write(nowhere, table, ""))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessageStartingWith("the tuning file " + nowhere + " cannot be written: ");
  }

  /** As NVRAR's tuning script writes it. */
  @Test
  void aSizeOfNvrarsTableReachesUpToTheNextOne() throws IOException {
    Path file =
        file(
            """
            {"65536": {"num_blocks": 16, "threads_per_block": 512, "chunk_bytes": 16384,
                       "avg_time_ms": 0.0417, "algorithm": "recursive", "dtype": "half"},
             "8192": {"num_blocks": 8, "threads_per_block": 256, "dtype": null}}
            """);
    assertThat(TuningFile.read(file).rules())
        .containsExactly(
            recursive(null, 65535, new TuningTable.LaunchShape(8, 256, 0)),
            recursive(DataType.FLOAT16, Long.MAX_VALUE, new TuningTable.LaunchShape(16, 512, 0)));
  }

  private static TuningTable.Rule recursive(
      @Nullable DataType type, long bytesMax, TuningTable.LaunchShape shape) {
    return new TuningTable.Rule(
        type, 0, 0, bytesMax, Algorithm.HIERARCHICAL, TuningTable.Collective.ALL_REDUCE, "", shape);
  }

  @Test
  void moreRulesThanATicketCarriesAreRefused() throws IOException {
    List<String> rules = java.util.Collections.nCopies(TuningTable.MAX_RULES, RULE);
    String fits = "{'version': 1, 'rules': [" + String.join(",", rules);
    assertThat(TuningFile.read(file(fits + "]}")).rules()).hasSize(TuningTable.MAX_RULES);
    Path file = file(fits + "," + RULE + "]}");
    assertThatThrownBy(() -> TuningFile.read(file))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("the table has more than 128 rules, the limit");
  }

  @Test
  void whatIsNoFileOfTextIsRefused() throws IOException {
    Path missing = directory.resolve("missing.json");
    assertThatThrownBy(() -> TuningFile.read(missing))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessage("the tuning file " + missing + " does not exist");
    assertThatThrownBy(() -> TuningFile.read(directory))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the tuning file " + directory + " is not a regular file");
    // It has no end, so reading it whole would never return.
    assertThatThrownBy(() -> TuningFile.read(Path.of("/dev/zero")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the tuning file /dev/zero is not a regular file");
    Path large = Files.write(directory.resolve("large"), new byte[(1 << 20) + 1]);
    assertThatThrownBy(() -> TuningFile.read(large))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the tuning file " + large + " has more than 1048576 bytes, the limit");
    Path binary = Files.write(directory.resolve("binary"), new byte[] {(byte) 0xff, 0, 1});
    assertThatThrownBy(() -> TuningFile.read(binary))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("the tuning file " + binary + " is not text in UTF-8");
  }

  @Test
  void aLongOrDeepFileIsRefusedInAShortSentence() throws IOException {
    for (String hostile :
        List.of(
            "[".repeat(1 << 19),
            "{'version': 1, 'rules': " + "[".repeat(1 << 19),
            "{'" + "x\\u0007".repeat(1 << 16) + "': 1}",
            "{'version': " + "9".repeat(1 << 19) + "}",
            "{'version': 1, 'rules': [{'dataType': '" + "x".repeat(1 << 19) + "'}]}")) {
      Path file = file(hostile);
      assertThatThrownBy(() -> TuningFile.read(file))
          .isInstanceOf(IllegalArgumentException.class)
          .message()
          .hasSizeLessThan(500)
          .doesNotContainPattern("\\p{Cntrl}");
    }
  }

  @Test
  void whateverIsInTheFileTheAnswerIsATableOrOneSentence() throws IOException {
    String good = "{'version': 1, 'rules': [" + RULE + "," + RULE + "]}";
    Random random = new Random(7);
    int refused = 0;
    for (int i = 0; i < 2000; i++) {
      byte[] bytes = good.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
      for (int change = random.nextInt(3); change >= 0; change--) {
        bytes[random.nextInt(bytes.length)] =
            (byte)
                (random.nextBoolean()
                    ? random.nextInt(256)
                    : "[]{}:,\"\\u0-e.".charAt(random.nextInt(13)));
      }
      Path file = Files.write(directory.resolve("damaged"), bytes);
      try {
        assertThat(TuningFile.read(file).rules().size()).isLessThanOrEqualTo(2);
      } catch (IllegalArgumentException e) {
        assertThat(e).hasMessageStartingWith("the tuning file " + file);
        refused++;
      }
    }
    assertThat(refused).isGreaterThan(1000);
  }
}
