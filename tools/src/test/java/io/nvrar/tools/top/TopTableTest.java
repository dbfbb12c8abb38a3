package io.nvrar.tools.top;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.nvrar.internal.flight.HostWatch.RankSample;
import io.nvrar.tools.CommandLines;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What is shown of samples that were made by hand. */
class TopTableTest {
  private static final String CALL = "allReduce #41 float32[1024] SUM (one-shot)";

  private static RankSample rank(
      String id, int rank, String state, String call, double seconds, String problem) {
    return new RankSample(
        "tp",
        id,
        2,
        "CPU",
        rank,
        "node",
        100 + rank,
        state,
        call,
        seconds,
        1234,
        567.8,
        2.5e6,
        0.426,
        problem);
  }

  private static List<String> lines(RankSample... ranks) {
    return TopTable.lines(new Look("now", GroupSample.of(List.of(ranks)), List.of()));
  }

  @Test
  void aLineForEachRankWithItsRates() {
    assertThat(
            lines(rank("0a", 0, "idle", CALL, 0.0123, ""), rank("0a", 1, "running", CALL, 0.5, "")))
        .containsExactly(
            "now  1 group, 2 ranks",
            "",
            "group 'tp' (0a), 2 ranks on CPU: ok",
            "rank  host                  pid  state           calls    calls/s       MB/s in calls       for  last call",
            "   0  node                  100  idle             1234        568       2.50     43 %   12.3 ms  "
                + CALL,
            "   1  node                  101  running          1234        568       2.50     43 %  500.0 ms  "
                + CALL);
  }

  @Test
  void whoWaitsForWhomIsSaid() {
    assertThat(
            lines(rank("0a", 0, "running", CALL, 3.21, ""), rank("0a", 1, "idle", CALL, 3.3, "")))
        .contains(
            "group 'tp' (0a), 2 ranks on CPU: waiting, rank 0 in "
                + CALL
                + " for 3.2 s, without rank 1");
    assertThat(
            lines(rank("0a", 0, "running", CALL, 3.21, ""), rank("0a", 1, "running", CALL, 3, "")))
        .contains("group 'tp' (0a), 2 ranks on CPU: waiting, ranks 0, 1 in " + CALL + " for 3.2 s");
  }

  @Test
  void aFailureIsSaidByWhoKnowsMostAndARankThatIsNotSeenHasALine() {
    assertThat(
            lines(
                rank("0a", 0, "failed", CALL, 1, "rank 1 (pid 101 on host node) was lost"),
                rank("0a", 1, "gone", "", 0, "its process has ended")))
        .contains(
            "group 'tp' (0a), 2 ranks on CPU: failed, rank 1 (pid 101 on host node) was lost");
    assertThat(lines(rank("0a", 1, "idle", CALL, 1, "")))
        .contains("now  1 group, 1 rank")
        .contains(
            "group 'tp' (0a), 2 ranks on CPU: incomplete, rank 0 is unseen: it has closed, or is where this command does not look")
        .contains(
            "   0  -                       -  unseen              -          -          -        -         -");
  }

  @Test
  void groupsOfOneNameAreApartAndThoseWithoutAProcessAreLeftOut() {
    List<GroupSample> groups =
        GroupSample.of(
            List.of(
                rank("0a", 0, "gone", "", 0, "its process has ended"),
                rank("0b", 0, "idle", CALL, 1, ""),
                rank("0b", 1, "idle", CALL, 1, ""),
                rank("0c", 0, "idle", CALL, 1, ""),
                rank("0c", 1, "idle", CALL, 1, "")));
    assertThat(groups).extracting(GroupSample::id).containsExactly("0b", "0c");
    assertThat(groups).extracting(GroupSample::state).containsOnly("ok");
  }

  @Test
  void theJsonOfALookHasAllOfIt() {
    Look look =
        Look.of(
            List.of(rank("0a", 0, "idle", CALL, 0.25, ""), rank("0a", 1, "idle", CALL, 0.25, "")),
            List.of("node 10.0.0.2 is not seen: it has not answered yet"));
    String line = look.toJson();
    assertThat(line).doesNotContain("\n");
    JsonObject json = JsonParser.parseString(line).getAsJsonObject();
    assertThat(json.getAsJsonArray("problems").get(0).getAsString()).contains("10.0.0.2");
    JsonObject group = json.getAsJsonArray("groups").get(0).getAsJsonObject();
    assertThat(group.keySet())
        .containsExactly("group", "id", "worldSize", "backend", "state", "problem", "ranks");
    JsonObject rank = group.getAsJsonArray("ranks").get(1).getAsJsonObject();
    assertThat(rank.keySet())
        .containsExactly(
            "group",
            "id",
            "worldSize",
            "backend",
            "rank",
            "host",
            "pid",
            "state",
            "call",
            "seconds",
            "calls",
            "callsPerSecond",
            "bytesPerSecond",
            "inCalls",
            "problem");
    assertThat(rank.get("callsPerSecond").getAsDouble()).isEqualTo(567.8);
    assertThat(rank.get("call").getAsString()).isEqualTo(CALL);
    assertThat(TopTable.lines(look))
        .contains("! node 10.0.0.2 is not seen: it has not answered yet");
  }

  @Test
  void wrongOptionsAreOneSentence() {
    CommandLines nvrar = new CommandLines();
    assertThat(nvrar.run("top", "--interval", "0")).isEqualTo(2);
    assertThat(nvrar.err()).startsWith("nvrar: --interval is 0.0, must be 0.1 to 3600.0\n");
    assertThat(nvrar.run("top", "--count", "-1")).isEqualTo(2);
    assertThat(nvrar.run("top", "--address", "127.0.0.1:1", "--count", "1")).isEqualTo(1);
    assertThat(nvrar.err()).startsWith("nvrar: no Ray cluster answers at 127.0.0.1:1: ");
  }
}
