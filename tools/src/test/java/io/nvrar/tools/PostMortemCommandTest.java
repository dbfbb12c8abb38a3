package io.nvrar.tools;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PostMortemCommandTest {
  private static final String HEADER =
      """
      {"nvrarFlight":1,"group":"tp","id":"0a1b2c3d","worldSize":2,"backend":"CPU","build":"b1","time":"2026-01-02T03:04:05.678Z","nanos":9000000,"host":"node","writer":0,"failure":"TIMEOUT","message":"allReduce #2 float32[8] SUM timed out","failedRank":-1,"missing":[1]}
      """;
  private static final String RANKS =
      """
      {"rank":0,"host":"node","pid":11,"calls":1}
      {"rank":0,"state":"failed","call":"allReduce #2 float32[8] SUM (two-shot, 3 launches)","collective":1,"sequence":2,"algorithm":2,"launches":3,"groupSequence":2,"peer":-1,"transfers":0,"begin":7500000,"end":8000000}
      {"rank":1,"host":"node","pid":12,"calls":1}
      {"rank":1,"state":"done","call":"allReduce #1 float32[8] SUM (one-shot)","collective":1,"sequence":1,"algorithm":1,"launches":1,"groupSequence":1,"peer":-1,"transfers":0,"begin":1000000,"end":1500000}
      """;

  private final StringWriter out = new StringWriter();
  private final StringWriter err = new StringWriter();
  @TempDir private Path scratch;

  private int run(String... args) {
    return Main.run(new PrintWriter(out, true), new PrintWriter(err, true), args);
  }

  @Test
  void printsWhatEachRankDidLastAndWhoIsAtFault() throws IOException {
    Path file = Files.writeString(scratch.resolve("tp.jsonl"), HEADER + RANKS);
    assertThat(run("post-mortem", file.toString())).isZero();
    assertThat(out.toString())
        .contains("'tp', 2 ranks, CPU, library build b1")
        .contains("failure        allReduce #2 float32[8] SUM timed out")
        .containsPattern(
            "0 +node +11 +failed +1\\.500 ms +allReduce #2 float32\\[8\\] SUM \\(two-shot, 3 launches\\)")
        .containsPattern(
            "1 +node +12 +done +8\\.000 ms +allReduce #1 float32\\[8\\] SUM \\(one-shot\\)")
        .contains(
            "at fault: rank 1 did not enter allReduce #2 float32[8] SUM (two-shot, 3 launches); it had finished allReduce #1 float32[8] SUM (one-shot)");
  }

  @Test
  void theFilesOfSeveralHostsAreOneReportOfTheirGroup() throws IOException {
    String remote = RANKS.replace("\"rank\":1,\"host\":\"node\"", "\"rank\":1,\"host\":\"other\"");
    List<String> lines = remote.lines().toList();
    String unknown = "\n{\"rank\":1,\"host\":\"other\",\"pid\":12,\"calls\":0}\n";
    Path one =
        Files.writeString(
            scratch.resolve("node.jsonl"), HEADER + lines.get(0) + "\n" + lines.get(1) + unknown);
    Path two =
        Files.writeString(
            scratch.resolve("other.jsonl"),
            HEADER.replace("\"host\":\"node\"", "\"host\":\"other\"") + remote);
    assertThat(run("post-mortem", one.toString())).isZero();
    assertThat(out.toString())
        .contains(
            "at fault: rank 1 had not sent what allReduce #2 float32[8] SUM (two-shot, 3 launches) waited for; the record of another host says what it did");
    out.getBuffer().setLength(0);
    assertThat(run("post-mortem", one.toString(), two.toString())).isZero();
    assertThat(out.toString())
        .containsOnlyOnce("flight record  " + one + ", " + two)
        .containsPattern("1 +other +12 +done +8\\.000 ms +allReduce #1")
        .contains("at fault: rank 1 did not enter allReduce #2");
  }

  @Test
  void aBadFileIsOneSentenceAndTheExitCodeOfAFailure() {
    assertThat(run("post-mortem", scratch.resolve("none").toString())).isEqualTo(Main.FAILED);
    assertThat(err.toString().strip().lines())
        .containsExactly("nvrar: " + scratch.resolve("none") + " does not exist");
    assertThat(run("post-mortem", "--last")).isEqualTo(Main.WRONG_USAGE);
  }

  @Test
  void withoutAFileTheNewestRecordOfThisHostIsPrinted() throws IOException {
    String before = System.setProperty("nvrar.flight.dir", scratch.toString());
    try {
      assertThat(run("post-mortem")).isEqualTo(Main.FAILED);
      assertThat(err.toString())
          .startsWith("nvrar: there is no flight record in " + scratch + ", where ");
      Path newest = Files.writeString(scratch.resolve("a.jsonl"), HEADER + RANKS);
      Path older = Files.writeString(scratch.resolve("b.jsonl"), HEADER + RANKS);
      Files.writeString(scratch.resolve("a.trace.json"), "{}");
      Files.setLastModifiedTime(older, FileTime.from(Instant.now().minusSeconds(60)));
      assertThat(run("post-mortem")).isZero();
      assertThat(out.toString()).containsOnlyOnce("flight record  " + newest);
    } finally {
      if (before == null) {
        System.clearProperty("nvrar.flight.dir");
      } else {
        System.setProperty("nvrar.flight.dir", before);
      }
    }
  }
}
