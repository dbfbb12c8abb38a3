package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.CollectiveException;
import io.nvrar.CollectiveGroup;
import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.PeerLostException;
import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The application of one process uses up its heap, which ends threads of the library. */
@Tag("contract")
@Tag("slow")
class StarvedProcessTest {
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Forks forks = new Forks();

  /** A process that collects garbage all the time is slow, and must not be taken for lost here. */
  private static final Duration SILENCE = Duration.ofSeconds(60);

  @AfterEach
  void endProcesses() {
    threads.shutdownNow();
    forks.close();
  }

  private static CollectiveException loop(GroupTicket ticket, int rank) {
    try (CollectiveGroup group = Members.join(ticket, rank);
        DeviceBuffer buffer = group.device().allocate(DataType.FLOAT32, 1024)) {
      while (true) {
        group.allReduce(buffer);
        Members.complete(group);
      }
    } catch (CollectiveException e) {
      return e;
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void theOthersLearnOfIt(int starvedRank) throws Exception {
    ForkedMember starved;
    GroupTicket ticket;
    if (starvedRank == 0) {
      starved = forks.add(ForkedMember.create("starved", 2, SILENCE.toMillis(), "starve"));
      ticket = starved.ticket();
    } else {
      ticket =
          Groups.createTicket(
              "starved", 2, Members.config().heartbeatLimit(SILENCE).build(), Members.HOST);
      starved = forks.add(ForkedMember.join(ticket, 1, "starve"));
    }
    Future<CollectiveException> peer = threads.submit(() -> loop(ticket, 1 - starvedRank));
    starved.expect("JOINED");
    assertThat(starved.expect("MAPPED")).as("its segments").isNotEqualTo("MAPPED 0");
    CollectiveException failure = peer.get(SILENCE.toSeconds(), TimeUnit.SECONDS);
    assertThat(failure)
        .isNotInstanceOf(PeerLostException.class)
        .hasMessageContaining("rank " + starvedRank + " (pid " + starved.pid())
        .hasMessageContaining("was ended by java.lang.OutOfMemoryError");
    assertThat(starved.expect("FAILURE"))
        .contains("rank " + starvedRank, "was ended by java.lang.OutOfMemoryError");
    String[] left = starved.expect("LEFT").split(" ", -1);
    assertThat(Long.parseLong(left[1])).as("ms until it was closed").isLessThan(5000);
    assertThat(left[2]).as("segments that are still mapped").isEqualTo("0");
  }
}
