package io.nvrar.internal.wire;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import java.util.Arrays;
import java.util.HexFormat;

/** Tickets: as they come, and the body of one whose digest is right. */
public final class TicketFuzzer {
  private static final long MAX_BYTES = 256 * 1024;

  /** Shared, because making one takes longer than reading a ticket. */
  private static final Wire WIRE = new Wire();

  private TicketFuzzer() {}

  /** The first byte says which of the two. */
  public static void fuzzerTestOneInput(byte[] data) {
    if (data.length == 0) {
      return;
    }
    byte[] rest = Arrays.copyOfRange(data, 1, data.length);
    withinMemory(
        MAX_BYTES + 4L * data.length,
        data[0] == 0
            ? () -> refuse(() -> TicketCodec.decode(rest))
            : () -> refuse(() -> body(rest)));
  }

  private static void refuse(Runnable reading) {
    try {
      reading.run();
    } catch (IllegalArgumentException e) {
      sentence(e);
    }
  }

  /** What {@link TicketCodec#decode} does with a body whose digest is right. */
  private static void body(byte[] body) {
    Ticket ticket = WIRE.read(body, 0, body.length, Ticket.class);
    byte[] bytes = WIRE.write(ticket);
    Ticket again = WIRE.read(bytes, 0, bytes.length, Ticket.class);
    holds(Arrays.equals(WIRE.write(again), bytes), "another ticket");
    String secret = HexFormat.of().formatHex(ticket.secret());
    holds(!ticket.toString().contains(secret), "the secret in the ticket's text");
  }
}
