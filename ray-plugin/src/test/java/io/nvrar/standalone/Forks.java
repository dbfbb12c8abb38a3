package io.nvrar.standalone;

import java.util.ArrayList;
import java.util.List;

/** The processes that a test has started; all end with it. */
public final class Forks implements AutoCloseable {
  private final List<ForkedMember> all = new ArrayList<>();

  public ForkedMember add(ForkedMember member) {
    all.add(member);
    return member;
  }

  @Override
  public void close() {
    all.forEach(ForkedMember::close);
  }
}
