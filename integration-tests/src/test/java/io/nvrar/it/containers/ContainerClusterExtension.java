package io.nvrar.it.containers;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Starts a class's cluster for its first test; JUnit closes it after the last. */
final class ContainerClusterExtension implements ParameterResolver {

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    return parameter.getParameter().getType() == ContainerCluster.class;
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    DockerTest wanted = context.getRequiredTestClass().getAnnotation(DockerTest.class);
    return ofClass(context)
        .getStore(ExtensionContext.Namespace.GLOBAL)
        .getOrComputeIfAbsent(
            ContainerCluster.class,
            type -> ContainerCluster.start(wanted.workers(), wanted.actorsOnHead()),
            ContainerCluster.class);
  }

  private static ExtensionContext ofClass(ExtensionContext context) {
    ExtensionContext of = context;
    while (of.getParent().flatMap(ExtensionContext::getTestClass).isPresent()) {
      of = of.getParent().get();
    }
    return of;
  }
}
