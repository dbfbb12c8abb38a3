package io.nvrar.ray;

/** Says which device its member of a group would compute on. */
public class OrdinalProbe implements CollectiveActor {

  public int ordinal() {
    return CurrentActor.gpuOrdinal();
  }
}
