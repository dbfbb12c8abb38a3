package io.nvrar.internal.member;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.DataType;
import io.nvrar.DeviceBuffer;
import io.nvrar.standalone.Members;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

class HastyCloseTest {
  /** Otherwise the peers would wait for it until their limits. */
  @Test
  void aMemberThatWaitsForNobodyStillAnnouncesThatItCloses() throws Exception {
    for (int round = 0; round < 20; round++) {
      try (Members members = Members.join("hasty", 2, Members.config().build())) {
        members.onAll(Members::barrier);
        Future<Object> call =
            members.start(
                () -> {
                  try (DeviceBuffer buffer =
                      members.rank(0).device().allocate(DataType.FLOAT32, 4)) {
                    members.rank(0).allReduce(buffer);
                    Members.complete(members.rank(0));
                  }
                  return "done";
                });
        ((MemberGroup) members.rank(1)).close(0);
        assertThat(Members.failureOf(call)).hasMessageContaining("rank 1 closed the group");
      }
    }
  }
}
