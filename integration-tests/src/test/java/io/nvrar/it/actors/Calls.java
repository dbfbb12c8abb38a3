package io.nvrar.it.actors;

import io.ray.api.ActorHandle;
import io.ray.api.ObjectRef;
import io.ray.api.Ray;
import io.ray.api.exception.RayException;
import io.ray.api.exception.RayTimeoutException;
import java.util.List;
import java.util.function.Function;

/** Tasks on several actors at once. */
public final class Calls {

  private static final int LIMIT_MILLIS = 60_000;

  private Calls() {}

  public static <A, R> List<ObjectRef<R>> start(
      List<ActorHandle<A>> actors, Function<ActorHandle<A>, ObjectRef<R>> task) {
    return actors.stream().map(task).toList();
  }

  /** The results in the actors' order; the first failure is thrown. */
  public static <A, R> List<R> all(
      List<ActorHandle<A>> actors, Function<ActorHandle<A>, ObjectRef<R>> task) {
    return Ray.get(start(actors, task), LIMIT_MILLIS);
  }

  /** What each actor finds wrong with its result of a call, "" if nothing. */
  public static List<String> wrong(List<ActorHandle<Probe>> actors, String group, Call call) {
    return all(actors, actor -> actor.task(Probe::check, group, call).remote());
  }

  /** What a task threw in its actor. */
  public static Throwable failure(ObjectRef<?> task) {
    Object result;
    try {
      result = Ray.get(task, LIMIT_MILLIS);
    } catch (RayTimeoutException e) {
      throw e;
    } catch (RayException e) {
      return e.getCause() == null ? e : e.getCause();
    }
    throw new AssertionError("the task did not fail, it returned " + result);
  }
}
