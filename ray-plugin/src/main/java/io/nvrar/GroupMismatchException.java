package io.nvrar;

/**
 * Members differ in what must be the same: library build, world size, configuration, or the calls
 * they make.
 */
public final class GroupMismatchException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  /** With one sentence that names both sides of the difference. */
  public GroupMismatchException(String message) {
    super(message);
  }

  @Override
  GroupMismatchException bare() {
    return new GroupMismatchException(String.valueOf(getMessage()));
  }
}
