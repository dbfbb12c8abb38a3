package io.nvrar.internal.wire;

import static io.nvrar.fuzz.FuzzProperties.holds;
import static io.nvrar.fuzz.FuzzProperties.sentence;
import static io.nvrar.fuzz.FuzzProperties.withinMemory;

import io.nvrar.standalone.GroupTicket;
import java.util.Arrays;
import java.util.HexFormat;

/** Tickets: as they come, and the group of one whose digest is right. */
public final class TicketFuzzer {
  private static final long MAX_BYTES = 256 * 1024;

  /** Behind the ticket's header. */
  private static final int SECRET_AT = 9;

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
        data[0] == 0 ? () -> refuse(() -> ticket(rest)) : () -> refuse(() -> spec(rest)));
  }

  private static void refuse(Runnable reading) {
    try {
      reading.run();
    } catch (IllegalArgumentException e) {
      sentence(e);
    }
  }

  private static void ticket(byte[] bytes) {
    String text = GroupTicket.of(bytes).toString();
    String secret = HexFormat.of().formatHex(bytes, SECRET_AT, SECRET_AT + GroupKeys.SECRET_BYTES);
    holds(!text.contains(secret), "the secret in the ticket's text");
  }

  /** What {@link TicketCodec#decode} does with the group behind the secret. */
  private static void spec(byte[] body) {
    GroupSpec spec = WIRE.read(body, 0, body.length, GroupSpec.class);
    byte[] bytes = WIRE.write(spec);
    GroupSpec again = WIRE.read(bytes, 0, bytes.length, GroupSpec.class);
    holds(Arrays.equals(WIRE.write(again), bytes), "another group");
  }
}
