package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.GroupConfig;
import io.nvrar.bootstrap.Groups;
import io.ray.api.id.ActorId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class GroupRegistryTest {

  private final GroupRegistry registry = new GroupRegistry();
  private final ActorId actor = ActorId.fromRandom();
  private final ActorId other = ActorId.fromRandom();

  @AfterEach
  void close() {
    for (ActorId id : new ActorId[] {actor, other}) {
      if (registry.find(id, "tp") != null) {
        registry.destroy(id, "tp");
      }
    }
  }

  @Test
  void actorsOfOneProcessHaveGroupsOfTheSameNameApart() {
    join(actor, "tp");
    assertThat(registry.find(other, "tp")).isNull();
    join(other, "tp");
    assertThat(registry.get(other, "tp")).isNotSameAs(registry.get(actor, "tp"));
  }

  @Test
  void aLiveGroupKeepsItsName() {
    join(actor, "tp");
    CollectiveGroup first = registry.get(actor, "tp");
    assertThatThrownBy(() -> join(actor, "tp"))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("'tp'");
    assertThat(registry.get(actor, "tp")).isSameAs(first);
    assertThat(first.isClosed()).isFalse();
  }

  @Test
  void aClosedOrFailedGroupMakesRoomForItsSuccessor() {
    join(actor, "tp");
    CollectiveGroup closed = registry.get(actor, "tp");
    closed.close();
    assertThat(registry.find(actor, "tp")).isNull();
    join(actor, "tp");
    CollectiveGroup failed = registry.get(actor, "tp");
    failed.abort("a test");
    assertThat(registry.find(actor, "tp")).isSameAs(failed);
    join(actor, "tp");
    assertThat(registry.get(actor, "tp")).isNotSameAs(failed);
    assertThat(failed.isClosed()).isTrue();
  }

  @Test
  void aJoinThatFailsLeavesTheNameFree() {
    assertThatThrownBy(
            () ->
                registry.join(
                    actor,
                    "tp",
                    new byte[1],
                    () -> {
                      throw new IllegalStateException("a test");
                    }))
        .hasMessage("a test");
    join(actor, "tp");
  }

  @Test
  void leavingEndsTheGroupOfItsTicketOnly() {
    byte[] ticket = join(actor, "tp");
    CollectiveGroup group = registry.get(actor, "tp");
    assertThat(registry.leave(actor, "tp", new byte[] {1})).isFalse();
    assertThat(group.isClosed()).isFalse();
    assertThat(registry.leave(actor, "tp", ticket)).isTrue();
    assertThat(group.isClosed()).isTrue();
    assertThat(registry.find(actor, "tp")).isNull();
  }

  @Test
  void anUnknownGroupsMessageListsTheKnownOnes() {
    assertThatThrownBy(() -> registry.get(actor, "tp"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("this actor is not a member of a group named 'tp'; its groups are: none");
    join(actor, "tp");
    assertThatThrownBy(() -> registry.destroy(actor, "dp"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("this actor is not a member of a group named 'dp'; its groups are: 'tp'");
  }

  private byte[] join(ActorId id, String name) {
    byte[] ticket = Groups.createTicket(name, 1, GroupConfig.defaults(), "127.0.0.1");
    try {
      registry.join(id, name, ticket, () -> Groups.join(ticket, 0));
    } catch (RuntimeException e) {
      Groups.discardTicket(ticket);
      throw e;
    }
    return ticket;
  }
}
