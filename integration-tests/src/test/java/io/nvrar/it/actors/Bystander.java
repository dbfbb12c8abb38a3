package io.nvrar.it.actors;

/** An actor that cannot be a member of a group. */
public class Bystander {
  /** Shows that it runs. */
  public boolean isThere() {
    return true;
  }
}
