package io.nvrar;

/**
 * Members differ in something that must be the same on all: the library build, the world size, or
 * the calls they make.
 */
public final class GroupMismatchException extends CollectiveException {
  private static final long serialVersionUID = 1L;

  /** Creates one with a message of one sentence that names both sides of the difference. */
  public GroupMismatchException(String message) {
    super(message);
  }

  @Override
  GroupMismatchException bare() {
    return new GroupMismatchException(String.valueOf(getMessage()));
  }
}
