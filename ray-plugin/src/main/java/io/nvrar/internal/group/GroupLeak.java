package io.nvrar.internal.group;

import java.lang.ref.Cleaner;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Logs that a group was dropped without {@code close()}. It frees nothing: the other members may be
 * in a call with this one, and a leak is a mistake that should be found, not hidden.
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

  /**
   * Logs a leak if {@code group} becomes unreachable without being closed. {@code member} must not
   * reference it.
   */
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
