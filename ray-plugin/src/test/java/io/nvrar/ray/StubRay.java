package io.nvrar.ray;

import io.ray.api.ActorHandle;
import io.ray.api.Ray;
import io.ray.api.runtime.RayRuntime;
import io.ray.api.runtimecontext.RuntimeContext;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/** In Ray's place until it is closed: kills actors, or refuses to as often as it is told. */
final class StubRay implements AutoCloseable {

  /** What the next calls of kill throw. */
  final Deque<RuntimeException> refusals = new ArrayDeque<>();

  final List<ActorHandle<?>> killed = new ArrayList<>();

  StubRay() {
    RuntimeContext context = stub(RuntimeContext.class, (method, arguments) -> false);
    initialise(
        stub(
            RayRuntime.class,
            (method, arguments) -> {
              if (method.getName().equals("getRuntimeContext")) {
                return context;
              }
              return kill((ActorHandle<?>) arguments[0]);
            }));
  }

  private @Nullable Object kill(ActorHandle<?> actor) {
    RuntimeException refusal = refusals.poll();
    if (refusal != null) {
      throw refusal;
    }
    killed.add(actor);
    return null;
  }

  private static <T> T stub(Class<T> type, BiFunction<Method, Object[], @Nullable Object> answer) {
    return type.cast(
        Proxy.newProxyInstance(
            StubRay.class.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, arguments) -> answer.apply(method, arguments)));
  }

  private static void initialise(@Nullable RayRuntime runtime) {
    try {
      Field field = Ray.class.getDeclaredField("runtime");
      field.setAccessible(true);
      field.set(null, runtime);
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("Ray has no such field", e);
    }
  }

  @Override
  public void close() {
    initialise(null);
  }
}
