package io.nvrar.it.containers;

import io.nvrar.it.actors.Probe;
import io.nvrar.ray.RayCollectives;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** An actor that notes how its group ended, also where no driver may live to hear of it. */
public class Witness extends Probe {

  private String sight = "";

  /** The file of its host in which the member of a rank has noted it. */
  static String file(int rank) {
    return "/tmp/sight-" + rank;
  }

  /** All-reduces until the group ends; a {@link Sight} of that. */
  public String watch(String name) throws IOException {
    int rank = RayCollectives.rank(name);
    Files.deleteIfExists(Path.of(file(rank)));
    try {
      reduceForever(name);
    } catch (RuntimeException e) {
      sight = Sight.of(rank, e).toString();
    }
    Files.writeString(Path.of(file(rank)), sight);
    return sight;
  }

  /** What {@link #watch} returned last. */
  public String sight() {
    return sight;
  }
}
