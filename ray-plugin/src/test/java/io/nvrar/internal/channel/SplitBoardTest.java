package io.nvrar.internal.channel;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.GroupConfig;
import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Hosts;
import io.nvrar.internal.wire.Message;
import io.nvrar.internal.wire.ProcessIdentity;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Members on hosts A and B: ranks 0 and 1 on A, ranks 2 and 3 on B. */
class SplitBoardTest {
  private final Map<Integer, int[]> places = new HashMap<>();

  /** How often it was asked who is on which host. */
  private int questions;

  private final SplitBoard board =
      new SplitBoard(
          new GroupSpec("tp", 4, new byte[0], "A", 1, GroupConfig.defaults()),
          (rank, message) -> places.put(rank, ((Message.SplitPlaces) message).ranks()),
          () -> {
            questions++;
            return Hosts.of(
                new Message.Members(new Message.MemberInfo[] {on("A"), on("A"), on("B"), on("B")}));
          });

  private static Message.MemberInfo on(String host) {
    return new Message.MemberInfo(new ProcessIdentity(host, 7, host), new byte[0]);
  }

  private void split(int[] colors, int[] keys) {
    for (int rank = 0; rank < colors.length; rank++) {
      assertThat(board.called(rank, new Message.Split(1, colors[rank], keys[rank], 5), 0)).isNull();
    }
  }

  private void allAreToldOf(int... ranks) {
    assertThat(places.values()).allSatisfy(told -> assertThat(told).isEqualTo(ranks));
    assertThat(places).containsOnlyKeys(Arrays.stream(ranks).boxed().toList());
  }

  @Test
  void ranksOfAHostStayTogetherWhateverTheirKeys() {
    split(new int[] {0, 0, 0, 0}, new int[] {4, 2, 3, 1});
    allAreToldOf(3, 2, 1, 0);
  }

  @Test
  void keysThatDivideNoHostDecideAlone() {
    split(new int[] {0, 0, 0, 0}, new int[] {4, 3, 1, 2});
    allAreToldOf(2, 3, 1, 0);
  }

  @Test
  void whoIsOnWhichHostIsFoundOnceForAllNewGroups() {
    split(new int[] {0, 1, 2, 3}, new int[4]);
    assertThat(places).hasSize(4);
    assertThat(questions).isEqualTo(1);
  }

  @Test
  void whatNewGroupNamesKeepsItsOrderWithinAHost() {
    int[] named = {2, 0, 3};
    for (int rank = 0; rank < 4; rank++) {
      int place = Message.Split.newRank(rank, named).orElse(-1);
      assertThat(
              board.called(
                  rank, new Message.Split(1, place < 0 ? -1 : 0, place, 5, named.clone()), 0))
          .isNull();
    }
    assertThat(places.remove(1)).isEmpty();
    allAreToldOf(2, 3, 0);
  }
}
