package io.nvrar.tools.trace;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.google.gson.JsonObject;
import io.nvrar.support.ChildJvm;
import io.nvrar.tools.CommandLines;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Traces of records that were made by hand. */
class TraceCommandTest {
  @TempDir private Path scratch;
  private final CommandLines nvrar = new CommandLines();

  private static String header(String id, String host, int writer, long nanos) {
    return String.format(
        Locale.ROOT,
        """
        {"nvrarFlight":1,"group":"tp","id":"%s","worldSize":2,"backend":"CPU","build":"b1","time":"2026-01-02T03:04:05.678Z","nanos":%d,"host":"%s","writer":%d,"failure":"NONE","message":"none","failedRank":-1,"missing":[]}
        """,
        id,
        nanos,
        host,
        writer);
  }

  private static String rank(int rank, String host, String... calls) {
    return String.format(
        Locale.ROOT,
        "{\"rank\":%d,\"host\":\"%s\",\"pid\":%d,\"calls\":%d}\n%s",
        rank,
        host,
        10 + rank,
        calls.length,
        String.join("", calls));
  }

  private static String call(int rank, String state, String what, int number, long from, long to) {
    int collective = what.startsWith("send") ? 8 : what.startsWith("recv") ? 9 : 1;
    return String.format(
        Locale.ROOT,
        """
        {"rank":%d,"state":"%s","call":"%s","collective":%d,"sequence":%d,"algorithm":%d,"launches":1,"groupSequence":%d,"peer":%d,"transfers":%d,"begin":%d,"end":%d}
        """,
        rank,
        state,
        what,
        collective,
        number,
        collective == 1 ? 2 : 0,
        number,
        collective == 1 ? -1 : 1 - rank,
        collective == 1 ? 0 : 2,
        from,
        to);
  }

  private static String sum(int rank, int number, long from, long to) {
    return call(
        rank,
        "done",
        String.format(Locale.ROOT, "allReduce #%d float16[8 x 64] SUM", number),
        number,
        from,
        to);
  }

  private Path write(String name, String... parts) throws IOException {
    return Files.writeString(scratch.resolve(name), String.join("", parts));
  }

  @Test
  void aSliceForEachCallOnATrackForEachRank() throws IOException {
    Path record =
        write(
            "tp.jsonl",
            header("0a", "node", 0, 50_000),
            rank(0, "node", sum(0, 1, 10_000, 12_500), sum(0, 2, 20_000, 21_000)),
            rank(
                1,
                "node",
                sum(1, 1, 11_000, 12_750),
                call(1, "running", "barrier #2", 2, 30_000, 0)));
    assertThat(nvrar.run("trace", record.toString())).isZero();
    Path trace = scratch.resolve("tp.trace.json");
    assertThat(nvrar.out())
        .isEqualTo(
            String.format(Locale.ROOT, "%s: 4 calls of 2 ranks of group 'tp', 0.040 ms%n", trace));
    assertThat(Traces.names(trace, "process_name"))
        .containsExactly("rank 0 (pid 10 on host node)", "rank 1 (pid 11 on host node)");
    List<Traces.Slice> slices = Traces.slices(trace);
    assertThat(slices.get(0).name()).isEqualTo("allReduce");
    assertThat(slices.get(0).begin()).isZero();
    assertThat(slices.get(0).end()).isEqualTo(2.5, within(1e-9));
    JsonObject arguments = slices.get(0).arguments();
    assertThat(arguments.get("type").getAsString()).isEqualTo("float16");
    assertThat(arguments.get("bytes").getAsLong()).isEqualTo(8 * 64 * 2);
    assertThat(arguments.get("algorithm").getAsString()).isEqualTo("two-shot");
    assertThat(arguments.get("status").getAsString()).isEqualTo("done");
    Traces.Slice running = slices.get(3);
    assertThat(running.rank()).isEqualTo(1);
    assertThat(running.begin()).isEqualTo(20, within(1e-9));
    assertThat(running.end()).as("up to the moment of the record").isEqualTo(40, within(1e-9));
    assertThat(running.arguments().get("status").getAsString()).isEqualTo("running");
  }

  @Test
  void theClocksOfTwoHostsAreBroughtTogether() throws IOException {
    long ahead = 1_000_000_000;
    Path here =
        write(
            "a.jsonl",
            header("0a", "A", 0, 50_000),
            rank(0, "A", sum(0, 1, 10_000, 10_500), sum(0, 2, 20_000, 20_500)),
            rank(1, "B"));
    Path there =
        write(
            "b.jsonl",
            header("0a", "B", 1, ahead + 70_000),
            rank(0, "A"),
            rank(1, "B", sum(1, 1, ahead + 10_000, ahead + 10_500)));
    Path trace = scratch.resolve("out.json");
    assertThat(nvrar.run("trace", here.toString(), there.toString(), "-o", trace.toString()))
        .isZero();
    assertThat(nvrar.out())
        .contains(
            "The calls of B are placed to within 0.5 us, by 1 calls that it shares with the others.")
        .doesNotContain("does not show");
    List<Traces.Slice> slices = Traces.slices(trace);
    assertThat(slices.get(2).rank()).isEqualTo(1);
    assertThat(slices.get(2).begin()).isEqualTo(slices.get(0).begin(), within(1e-9));
  }

  @Test
  void theRanksOfAHostWithoutARecordAreNamed() throws IOException {
    Path here =
        write(
            "a.jsonl",
            header("0a", "A", 0, 50_000),
            rank(0, "A", sum(0, 1, 10_000, 10_500)),
            rank(1, "B", sum(1, 1, 0, 0)));
    assertThat(nvrar.run("trace", here.toString())).isZero();
    assertThat(nvrar.out())
        .contains("1 calls of 2 ranks")
        .contains("Without the records of their hosts, the trace does not show rank 1 on B.");
  }

  @Test
  void sendsSideBySideHaveTracksOfTheirOwnAndQueuedCallsDoNotOverlap() throws IOException {
    Path record =
        write(
            "tp.jsonl",
            header("0a", "node", 0, 50_000),
            rank(
                0,
                "node",
                call(0, "done", "send #1 int8[4] to rank 1 in a batch of 2", 1, 1_000, 4_000),
                call(0, "done", "recv #1 int8[4] from rank 1 in a batch of 2", 1, 1_000, 3_000),
                sum(0, 1, 5_000, 9_000),
                sum(0, 2, 6_000, 10_000)),
            rank(1, "node"));
    assertThat(nvrar.run("trace", record.toString())).isZero();
    Path trace = scratch.resolve("tp.trace.json");
    assertThat(Traces.names(trace, "thread_name"))
        .containsExactly("collectives", "send and recv", "send and recv 2", "collectives");
    List<Traces.Slice> slices = Traces.slices(trace);
    assertThat(slices).extracting(Traces.Slice::track).containsExactly(1, 2, 0, 0);
    assertThat(slices.get(3).begin()).isEqualTo(slices.get(2).end(), within(1e-9));
    assertThat(slices.get(3).arguments().get("queued_us").getAsDouble()).isEqualTo(3, within(1e-9));
  }

  @Test
  void whatIsNoRecordOfOneGroupIsOneSentence() throws IOException {
    Path one = write("one.jsonl", header("0a", "A", 0, 1), rank(0, "A"), rank(1, "A"));
    Path cut = write("cut.jsonl", header("0a", "A", 0, 1), rank(0, "A"));
    Path other = write("other.jsonl", header("0b", "A", 0, 1), rank(0, "A"), rank(1, "A"));
    assertThat(nvrar.run("trace", cut.toString())).isEqualTo(1);
    assertThat(nvrar.err())
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "nvrar: %s is not a flight record: it ends after 1 of 2 ranks%n",
                cut));
    assertThat(nvrar.run("trace", one.toString(), other.toString())).isEqualTo(1);
    assertThat(nvrar.err())
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "nvrar: %s is of group 'tp' (0a), %s of 'tp' (0b): a trace shows one group%n",
                one,
                other));
    assertThat(scratch.resolve("one.trace.json")).doesNotExist();
  }

  @Test
  void aRecordIsNotOverwrittenByItsTrace() throws IOException {
    Path record =
        write("tp.jsonl", header("0a", "node", 0, 50_000), rank(0, "node"), rank(1, "node"));
    String before = Files.readString(record);
    Path link = Files.createSymbolicLink(scratch.resolve("link.trace.json"), record);
    for (Path output : List.of(record, link)) {
      assertThat(nvrar.run("trace", "" + record, "-o", "" + output)).isEqualTo(2);
      assertThat(nvrar.err()).contains("--output is " + output + ", which is one of the records");
    }
    assertThat(record).hasContent(before);
    assertThat(nvrar.run("trace", "" + record, "-o", "/dev/full")).isEqualTo(1);
    assertThat(nvrar.err()).contains("/dev/full cannot be written: No space left on device");
  }

  @Test
  void aLinkUnderTheTracesNameIsNotFollowed() throws IOException {
    Path record =
        write(
            "tp.jsonl",
            header("0a", "node", 0, 50_000),
            rank(0, "node", sum(0, 1, 10_000, 12_500)),
            rank(1, "node"));
    Path precious = Files.writeString(scratch.resolve("precious"), "kept");
    Path link = Files.createSymbolicLink(scratch.resolve("tp.trace.json"), precious);
    assertThat(nvrar.run("trace", record.toString())).isEqualTo(1);
    assertThat(nvrar.err())
        .isEqualTo(
            String.format(
                Locale.ROOT,
                "nvrar: %s is a link, which this command follows only if --output names it%n",
                link));
    assertThat(precious).hasContent("kept");
    assertThat(nvrar.run("trace", record.toString(), "-o", link.toString())).isZero();
    assertThat(Traces.slices(precious)).hasSize(1);
  }

  @Test
  void longTextsOfARecordAreCut() throws IOException {
    String wide = "h".repeat(10_000);
    Path record =
        write(
            "wide.jsonl",
            header("0a", wide, 0, 50_000).replace("\"tp\"", "\"" + wide + "\""),
            rank(0, wide, call(0, "done", wide, 1, 10_000, 12_500)),
            rank(1, wide));
    assertThat(nvrar.run("trace", record.toString())).isZero();
    assertThat(nvrar.out().length()).isLessThan(1_000);
    assertThat(Files.size(scratch.resolve("wide.trace.json"))).isLessThan(5_000);
    assertThat(nvrar.run("post-mortem", record.toString())).isZero();
    // A line has a host and a call, of 512 characters at most.
    assertThat(nvrar.out().lines()).allMatch(line -> line.length() < 1_200);
    String missing = "0" + ",0".repeat(5_000);
    Path many =
        write(
            "many.jsonl",
            header("0a", "node", 0, 50_000).replace("[]", "[" + missing + "]"),
            rank(0, "node"),
            rank(1, "node"));
    assertThat(nvrar.run("post-mortem", many.toString())).isEqualTo(1);
    assertThat(nvrar.err()).contains("it names 5001 missing ranks of a world of size 2");
  }

  /** A record of a large group has ten times as many calls, and four times as much memory. */
  @Test
  void aLargeRecordIsTracedInTheMemoryThatItTakesToReadIt() throws Exception {
    int calls = 20_000;
    StringBuilder text = new StringBuilder(header("0a", "node", 0, 50_000));
    for (int rank = 0; rank < 2; rank++) {
      String[] sums = new String[calls];
      for (int i = 0; i < calls; i++) {
        sums[i] = sum(rank, i + 1, 10_000L + 1_000L * i, 10_900L + 1_000L * i);
      }
      text.append(rank(rank, "node", sums));
    }
    Path record = write("large.jsonl", text.toString());
    try (ChildJvm command =
        ChildJvm.of("io.nvrar.tools.Main", "trace", record.toString()).options("-Xmx48m").start()) {
      assertThat(command.end(0))
          .isEqualTo(
              String.format(
                  Locale.ROOT,
                  "%s: %d calls of 2 ranks of group 'tp', 20.000 ms\n",
                  scratch.resolve("large.trace.json"),
                  2 * calls));
    }
  }
}
