package io.ray.runtime;

import io.ray.api.runtime.RayRuntime;
import io.ray.api.runtime.RayRuntimeFactory;
import java.lang.reflect.Proxy;

/** In Ray's place, which the tests of the lessons have not: a runtime that does what it is told. */
public final class DefaultRayRuntimeFactory implements RayRuntimeFactory {

  /** What {@code Ray.shutdown()} does. */
  public static volatile Runnable shutdown = () -> {};

  /** What every other call does. */
  public static volatile Runnable work = () -> {};

  @Override
  public RayRuntime createRayRuntime() {
    return (RayRuntime)
        Proxy.newProxyInstance(
            DefaultRayRuntimeFactory.class.getClassLoader(),
            new Class<?>[] {RayRuntime.class},
            (proxy, method, arguments) -> {
              (method.getName().equals("shutdown") ? shutdown : work).run();
              return null;
            });
  }
}
