package io.nvrar.standalone;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.nvrar.CollectiveGroup;
import io.nvrar.internal.wire.OpenTicket;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class GroupTicketTest {
  private final GroupTicket ticket =
      Groups.createTicket("tp", 1, Members.config().build(), Members.HOST);

  @AfterEach
  void discard() {
    Groups.discardTicket(ticket);
  }

  @Test
  void aMemberJoinsWithATicketThatWasCarriedAsBytes() {
    GroupTicket carried = GroupTicket.of(ticket.toBytes());
    assertThat(carried).isEqualTo(ticket).hasSameHashCodeAs(ticket).hasToString(ticket.toString());
    assertThat(carried.toBytes()).isEqualTo(ticket.toBytes()).hasSizeLessThan(4096);
    try (CollectiveGroup group = Members.join(carried, 0)) {
      assertThat(group.name()).isEqualTo("tp");
    }
  }

  @Test
  void itsBytesAreCopies() {
    byte[] bytes = ticket.toBytes();
    GroupTicket carried = GroupTicket.of(bytes);
    Arrays.fill(bytes, (byte) 0);
    Arrays.fill(carried.toBytes(), (byte) 0);
    assertThat(carried).isEqualTo(ticket);
  }

  @Test
  void theTextNamesTheGroupAndNotTheSecret() {
    OpenTicket open = OpenTicket.of(ticket);
    assertThat(ticket)
        .hasToString("GroupTicket[name=tp, worldSize=1, address=127.0.0.1:" + open.port() + "]");
    assertThat(ticket.toString())
        .doesNotContain(
            HexFormat.of().formatHex(open.secret()),
            Base64.getEncoder().encodeToString(open.secret()),
            Arrays.toString(open.secret()));
  }

  @Test
  void ticketsDifferByTheirSecretAndByTheirGroup() {
    GroupTicket other = Groups.createTicket("tp", 1, Members.config().build(), Members.HOST);
    try {
      OpenTicket open = OpenTicket.of(ticket);
      byte[] secret = open.secret().clone();
      secret[31] ^= 1;
      OpenTicket renamed =
          new OpenTicket(
              "dp", 1, open.uniqueId(), open.host(), open.port(), open.secret(), open.config());
      assertThat(ticket)
          .isNotEqualTo(other)
          .isNotEqualTo(open.withSecret(secret).toGroupTicket())
          .isNotEqualTo(renamed.toGroupTicket())
          .isNotEqualTo(ticket.toString());
      assertThat(open.withSecret(secret).toGroupTicket()).doesNotHaveSameHashCodeAs(ticket);
    } finally {
      Groups.discardTicket(other);
    }
  }

  @Test
  @SuppressWarnings("NullAway") // what a program without null checks may do
  void otherBytesAreRefusedByASentence() {
    refused(null, "the ticket is null");
    refused(new byte[3], "not a ticket: 3 bytes, a ticket has more than 25");
    refused(new byte[100], "not a ticket: it does not begin with NVRT");
    byte[] version = ticket.toBytes();
    version[4] = 3;
    refused(version, "the ticket has protocol version 3, this library speaks version 4");
    byte[] damaged = ticket.toBytes();
    damaged[damaged.length - 1] ^= 1;
    refused(damaged, "the ticket is damaged: its digest differs");
    byte[] part = Arrays.copyOf(ticket.toBytes(), 60);
    assertThatThrownBy(() -> GroupTicket.of(part))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessageMatching("the ticket is damaged: it announces \\d+ bytes and has 35");
  }

  private static void refused(byte[] bytes, String sentence) {
    assertThatThrownBy(() -> GroupTicket.of(bytes))
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasMessage(sentence);
  }

  @Test
  @SuppressWarnings("NullAway") // that is the test
  void noTicketIsSaidToBeNone() {
    List<ThrowingCallable> calls =
        List.of(
            () -> Groups.join(null, 0),
            () -> Groups.observe(null),
            () -> Groups.discardTicket(null));
    for (ThrowingCallable call : calls) {
      assertThatThrownBy(call)
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("the ticket is null");
    }
  }
}
