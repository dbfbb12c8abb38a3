package io.nvrar.internal.flight;

import java.io.IOException;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets {@code nvrar top} find a member of this process. That it cannot is no failure of the member:
 * it is logged, and nothing is thrown. Thread-safe.
 */
public final class Announcement {
  /** The system property that names the directory. */
  public static final String DIRECTORY_PROPERTY = "nvrar.top.dir";

  private static final Logger LOG = LoggerFactory.getLogger(Announcement.class);

  private final Presences presences;
  private Presence member;
  private boolean withdrawn;

  private Announcement(Presences presences, Presence member) {
    this.presences = presences;
    this.member = member;
  }

  /** The directory of this process. */
  public static Path directoryOfProcess() {
    return FlightFile.ofProcess(DIRECTORY_PROPERTY, "nvrar-top-");
  }

  /**
   * Announces a member of this process.
   *
   * @param machine in which processes see each other's memory
   * @param descriptor how to find the member's memory
   */
  @SuppressWarnings("TooManyParameters")
  public static Announcement of(
      String group,
      String groupId,
      int worldSize,
      String backend,
      int rank,
      String host,
      String machine,
      byte[] descriptor) {
    long pid = ProcessHandle.current().pid();
    Announcement announcement =
        new Announcement(
            new Presences(directoryOfProcess()),
            new Presence(
                group,
                groupId,
                worldSize,
                backend,
                rank,
                host,
                machine,
                pid,
                LinuxProcess.started(pid),
                descriptor,
                null));
    announcement.begin();
    return announcement;
  }

  /** Adds why the member's group has failed. */
  public synchronized void failed(String why) {
    if (!withdrawn) {
      member = member.failed(why);
      write();
    }
  }

  /** The member is closed. Idempotent. */
  public synchronized void withdraw() {
    withdrawn = true;
    try {
      presences.delete(member);
    } catch (IOException e) {
      LOG.debug("{} cannot be deleted", presences.fileOf(member), e);
    }
  }

  private synchronized void begin() {
    try {
      presences.prune(member.machine());
    } catch (IOException | RuntimeException e) {
      LOG.debug("nothing is deleted in {}", directoryOfProcess(), e);
    }
    write();
  }

  private synchronized void write() {
    try {
      presences.write(member);
    } catch (IOException | RuntimeException e) {
      LOG.warn(
          "nvrar top does not see rank {} of group '{}': {}",
          member.rank(),
          member.group(),
          e.toString());
    }
  }
}
