package io.nvrar.ray;

/** Says which device its member of a group would compute on. */
public class OrdinalProbe implements CollectiveActor {

  /** Of its GPU; -1 if Ray gave it none. */
  public int ordinal() {
    return ActorGpu.ordinal().orElse(-1);
  }
}
