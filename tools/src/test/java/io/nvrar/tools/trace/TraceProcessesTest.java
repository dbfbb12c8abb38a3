package io.nvrar.tools.trace;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.support.ChildJvm;
import io.nvrar.tools.CommandLines;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A trace of what three processes have really done. */
@Tag("slow")
class TraceProcessesTest {
  private static final int RANKS = 3;
  private static final int CALLS = 1_100;
  private static final int KEPT = 1_024;

  @Test
  void theSlicesOfACallOverlapOnAllRanks(@TempDir Path scratch) throws Exception {
    Path record = scratch.resolve("traced.jsonl");
    List<ChildJvm> members = new ArrayList<>();
    try {
      members.add(start(String.valueOf(RANKS), 0, record));
      String ticket = members.get(0).awaitLine("TICKET ");
      for (int rank = 1; rank < RANKS; rank++) {
        members.add(start(ticket, rank, record));
      }
      for (ChildJvm member : members) {
        assertThat(member.awaitEnd(Duration.ofSeconds(60))).isEmpty();
      }
    } finally {
      members.forEach(ChildJvm::close);
    }
    CommandLines nvrar = new CommandLines();
    assertThat(nvrar.run("trace", record.toString())).as(nvrar.err()).isZero();
    assertThat(nvrar.run("post-mortem", record.toString())).isZero();
    assertThat(nvrar.out()).contains("at fault: the group had not failed when this was written");

    Map<String, List<Traces.Slice>> byCall =
        Traces.slices(scratch.resolve("traced.trace.json")).stream()
            .collect(Collectors.groupingBy(slice -> slice.arguments().get("call").getAsString()));
    int shared = 0;
    for (Map.Entry<String, List<Traces.Slice>> call : byCall.entrySet()) {
      List<Traces.Slice> slices = call.getValue();
      boolean ended =
          slices.stream()
              .allMatch(slice -> slice.arguments().get("status").getAsString().equals("done"));
      if (slices.size() == RANKS && ended) {
        shared++;
        double lastBegin = slices.stream().mapToDouble(Traces.Slice::begin).max().orElseThrow();
        assertThat(slices)
            .as(call.getKey())
            .allSatisfy(slice -> assertThat(slice.end()).isGreaterThanOrEqualTo(lastBegin));
        assertThat(slices).extracting(Traces.Slice::rank).containsExactlyInAnyOrder(0, 1, 2);
      }
    }
    // Rank 0 writes while the others may have begun the last barrier.
    assertThat(shared).isBetween(KEPT - 2, KEPT);
    Traces.Slice last =
        byCall.values().stream()
            .flatMap(List::stream)
            .filter(slice -> slice.name().equals("allReduce"))
            .max(Comparator.comparingDouble(Traces.Slice::end))
            .orElseThrow();
    assertThat(last.arguments().get("number").getAsInt()).isEqualTo(CALLS);
    assertThat(last.arguments().get("bytes").getAsInt()).isEqualTo(256 * 4);
  }

  private static ChildJvm start(String ticket, int rank, Path record) throws IOException {
    return ChildJvm.of(
            TracedMember.class.getName(),
            ticket,
            String.valueOf(rank),
            String.valueOf(CALLS),
            record.toString())
        .start();
  }
}
