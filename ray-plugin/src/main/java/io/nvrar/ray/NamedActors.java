package io.nvrar.ray;

import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/** The actors of a named {@link RayActorGroup}. */
final class NamedActors {

  private NamedActors() {}

  static String name(String group, int rank) {
    return group + "-" + rank;
  }

  /** An {@link IllegalStateException} about the first name that an actor has already. */
  static void refuseTaken(String group, int count) {
    for (int rank = 0; rank < count; rank++) {
      if (Ray.getActor(name(group, rank)).isPresent()) {
        throw taken(group, rank, null);
      }
    }
  }

  static IllegalStateException taken(String group, int rank, @Nullable Throwable cause) {
    return new IllegalStateException(
        "there is already an actor named '%s' in %s: find these actors, kill them, or take another name than '%s'"
            .formatted(name(group, rank), namespace(), group),
        cause);
  }

  static <A extends CollectiveActor> List<ActorHandle<A>> find(String group, int count) {
    return IntStream.range(0, count)
        .mapToObj(
            rank -> {
              Optional<ActorHandle<A>> handle = Ray.getActor(name(group, rank));
              return handle.orElseThrow(
                  () ->
                      new IllegalStateException(
                          "there is no actor named '%s' in %s: drivers find each other's actors under one ray.job.namespace"
                              .formatted(name(group, rank), namespace())));
            })
        .toList();
  }

  private static String namespace() {
    String namespace = Ray.getRuntimeContext().getNamespace();
    return namespace == null ? "this process" : "namespace '" + namespace + "'"; // in local mode
  }
}
