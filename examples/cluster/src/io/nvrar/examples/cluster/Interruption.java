package io.nvrar.examples.cluster;

/**
 * Makes Ctrl-C end this process at once while it uses Ray.
 *
 * <p>Ray's own shutdown hook closes Ray's core under the main thread, which then dies with a
 * message of Ray. Ending silently has the same effect: a cluster ends the actors of a driver that
 * has died, and the group's control channel tells them even sooner.
 */
final class Interruption implements AutoCloseable {
  private static final int CODE = 130;

  private final Thread hook = new Thread(() -> Runtime.getRuntime().halt(CODE), "interruption");

  private Interruption() {}

  static Interruption guard() {
    Interruption interruption = new Interruption();
    Runtime.getRuntime().addShutdownHook(interruption.hook);
    return interruption;
  }

  @Override
  public void close() {
    Runtime.getRuntime().removeShutdownHook(hook);
  }
}
