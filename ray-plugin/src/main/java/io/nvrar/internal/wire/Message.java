package io.nvrar.internal.wire;

import io.nvrar.internal.Printable;
import java.util.Locale;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.stream.IntStream;

/** A message of an authenticated control channel. */
@SuppressWarnings("ArrayRecordComponent") // read once, never changed
public sealed interface Message permits Failure, Message.Greeting, Message.Notice {

  /** The first message of a connection. */
  sealed interface Greeting extends Message permits Hello, ObserverHello {
    ProcessIdentity process();
  }

  /** Everything between the greeting and the end. */
  sealed interface Notice extends Message
      permits Descriptor,
          MemberInfo,
          Members,
          Connected,
          Ready,
          Heartbeat,
          Closing,
          AllClosed,
          Goodbye,
          Destroy,
          Activity,
          Split,
          SplitPlaces,
          SplitRendezvous {}

  /** The limit of each text in {@link Hello}. */
  int MAX_FACT_CHARS = 1024;

  /**
   * Member to hub: the properties that must be the same on all members. The configuration is not
   * among them, because all members have it from one ticket.
   */
  record Hello(
      ProcessIdentity process,
      String libraryVersion,
      String nativeBuild,
      int worldSize,
      String backend)
      implements Greeting {
    public Hello {
      Objects.requireNonNull(process, "process");
      libraryVersion = checked("a library version", libraryVersion, MAX_FACT_CHARS);
      nativeBuild = checked("a native build", nativeBuild, MAX_FACT_CHARS);
      backend = checked("a backend", backend, MAX_FACT_CHARS);
    }
  }

  /** Texts that the hub quotes or forwards must fit into its messages. */
  private static String checked(String what, String text, int maxChars) {
    if (text.length() > maxChars) {
      throw new IllegalArgumentException(
          String.format(
              Locale.ROOT, "%s of %d characters, the limit is %d", what, text.length(), maxChars));
    }
    return Printable.of(text);
  }

  /** Observer to hub. */
  record ObserverHello(ProcessIdentity process) implements Greeting {
    public ObserverHello {
      Objects.requireNonNull(process, "process");
    }
  }

  /** The limit of a descriptor, so that those of all members fit into one {@link Members}. */
  int MAX_DESCRIPTOR_BYTES = 1024;

  /** Member to hub: this member is prepared. */
  record Descriptor(byte[] bytes) implements Notice {
    public Descriptor {
      if (bytes.length > MAX_DESCRIPTOR_BYTES) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "a descriptor of %d bytes, the limit is %d",
                bytes.length,
                MAX_DESCRIPTOR_BYTES));
      }
    }
  }

  /** One member of {@link Members}. */
  record MemberInfo(ProcessIdentity process, byte[] descriptor) implements Notice {
    public MemberInfo {
      Objects.requireNonNull(process, "process");
      Objects.requireNonNull(descriptor, "descriptor");
    }
  }

  /** Hub to member: all members in rank order. */
  record Members(MemberInfo[] inRankOrder) implements Notice {
    public Members {
      Objects.requireNonNull(inRankOrder, "members");
    }
  }

  /** Member to hub: this member has mapped the others. */
  record Connected() implements Notice {}

  /** Hub to all: every member is connected. */
  record Ready() implements Notice {}

  /** Both ways: still here. */
  record Heartbeat() implements Notice {}

  /**
   * Member to hub to all: this rank makes no call after number {@code sequence}.
   *
   * @param destroyed whether the driver has destroyed the group: members may learn this from each
   *     other before they learn it from the driver
   */
  record Closing(int rank, long sequence, boolean destroyed) implements Notice {}

  /** Hub to all: every member is closing. */
  record AllClosed() implements Notice {}

  /** To the hub: the connection will be closed on purpose. */
  record Goodbye() implements Notice {}

  /** Observer to hub to members: close. */
  record Destroy() implements Notice {}

  /** Hub to observers, with each heartbeat: what each rank is doing. */
  record Activity(String sentence) implements Notice {
    public Activity {
      sentence = Printable.of(sentence, Failure.MAX_MESSAGE_CHARS);
    }
  }

  /**
   * Member to hub: this member waits in the group's {@code number}-th split, which it called after
   * its collective number {@code sequence}.
   *
   * @param ranks what the split's caller has named as the members of one new group, the same on all
   *     members; empty if each passed a color
   */
  record Split(int number, int color, int key, long sequence, int[] ranks) implements Notice {
    private static final int[] NONE = {};

    public Split {
      if (ranks.length > GroupSpec.MAX_WORLD_SIZE) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "a split that names %d ranks, the limit is %d",
                ranks.length,
                GroupSpec.MAX_WORLD_SIZE));
      }
    }

    /**
     * The rank in a group created by a split.
     *
     * @param rank in the group that was split
     * @param ranks the new group's members by their old rank, in the order of their new ranks
     * @return empty if the rank is not a member of the new group
     */
    public static OptionalInt newRank(int rank, int... ranks) {
      return IntStream.range(0, ranks.length).filter(r -> ranks[r] == rank).findFirst();
    }

    public Split(int number, int color, int key, long sequence) {
      this(number, color, key, sequence, NONE);
    }
  }

  /**
   * Hub to member: all members have called split. Lists the members of the receiver's new group by
   * their ranks in this group, in the order of their new ranks; empty if the receiver joins no new
   * group.
   */
  record SplitPlaces(int number, int[] ranks) implements Notice {
    public SplitPlaces {
      Objects.requireNonNull(ranks, "ranks");
    }
  }

  /**
   * From a new group's rank 0 through the hub to its other members: the address of their
   * rendezvous. From its unique id and this group's secret, which is not sent, follow the new
   * group's keys.
   *
   * @param problem why there is no rendezvous; empty if there is one
   */
  record SplitRendezvous(int number, byte[] uniqueId, String host, int port, String problem)
      implements Notice {
    public SplitRendezvous {
      if (uniqueId.length > MAX_DESCRIPTOR_BYTES) {
        throw new IllegalArgumentException(
            String.format(
                Locale.ROOT,
                "a unique id of %d bytes, the limit is %d",
                uniqueId.length,
                MAX_DESCRIPTOR_BYTES));
      }
      host = checked("a host", host, ProcessIdentity.MAX_CHARS);
      problem = Printable.of(problem, Failure.MAX_MESSAGE_CHARS);
    }
  }
}
