package io.nvrar.internal.channel;

import io.nvrar.internal.wire.GroupSpec;
import io.nvrar.internal.wire.Message;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Compares the properties that must be the same on all members, when a member's greeting arrives.
 */
final class GroupDifferences {
  private GroupDifferences() {}

  /**
   * How {@code hello} differs from the spec or from another member's, or null.
   *
   * @param members by rank; may include that of {@code rank}
   */
  static @Nullable String first(
      GroupSpec spec, int rank, Message.Hello hello, @Nullable Peer[] members) {
    if (hello.worldSize() != members.length) {
      return worldSize(spec, rank, hello);
    }
    for (int r = 0; r < members.length; r++) {
      Peer other = members[r];
      if (r == rank || other == null || !(other.greeting instanceof Message.Hello that)) {
        continue;
      }
      String[][] facts = {
        {"library version", hello.libraryVersion(), that.libraryVersion()},
        {"native build", hello.nativeBuild(), that.nativeBuild()},
        {"backend", hello.backend(), that.backend()},
      };
      for (String[] fact : facts) {
        if (!fact[1].equals(fact[2])) {
          return String.format(
              Locale.ROOT,
              "members of %s differ in %s: rank %d (%s) has %s, rank %d (%s) has %s",
              spec.label(),
              fact[0],
              rank,
              hello.process(),
              fact[1],
              r,
              that.process(),
              fact[2]);
        }
      }
    }
    return null;
  }

  static String worldSize(GroupSpec spec, int rank, Message.Hello hello) {
    return String.format(
        Locale.ROOT,
        "rank %d (%s) joins a world of size %d, but %s was made for world size %d",
        rank,
        hello.process(),
        hello.worldSize(),
        spec.label(),
        spec.worldSize());
  }
}
