package io.nvrar.internal.member;

import java.lang.ref.Cleaner;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says in the log that a group was dropped without {@code close()}. It frees nothing: the other
 * members may be in a call with this one, and a leak is a mistake to be found, not to be hidden.
 */
final class GroupLeak implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(GroupLeak.class);
  private static final Cleaner CLEANER = Cleaner.create();

  private final String name;
  private final Member member;

  private GroupLeak(String name, Member member) {
    this.name = name;
    this.member = member;
  }

  /** Reports when {@code group} is unreachable and not closed. {@code member} must not reach it. */
  static void watch(MemberGroup group, Member member) {
    CLEANER.register(group, new GroupLeak(group.toString(), member));
  }

  @Override
  public void run() {
    if (!member.isClosing()) {
      LOG.warn("Leak: {} was dropped without close(); it stays open until this process ends", name);
    }
  }
}
