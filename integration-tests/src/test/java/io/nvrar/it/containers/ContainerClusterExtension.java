package io.nvrar.it.containers;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Starts a class's cluster for its first test; JUnit closes it after the last. A test that fails
 * may have left hosts paused, cut off or dead, so the next one gets other containers.
 */
final class ContainerClusterExtension implements ParameterResolver, AfterEachCallback {

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

  @Override
  public void afterEach(ExtensionContext context) {
    ContainerCluster cluster =
        ofClass(context)
            .getStore(ExtensionContext.Namespace.GLOBAL)
            .get(ContainerCluster.class, ContainerCluster.class);
    if (cluster != null && context.getExecutionException().isPresent()) {
      cluster.restart();
    }
  }

  private static ExtensionContext ofClass(ExtensionContext context) {
    ExtensionContext of = context;
    while (of.getParent().flatMap(ExtensionContext::getTestClass).isPresent()) {
      of = of.getParent().get();
    }
    return of;
  }
}
