package io.nvrar.it.cluster;

import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Starts the cluster for the first test that needs it; JUnit closes it after the last. */
final class RayClusterExtension
    implements ExecutionCondition, BeforeAllCallback, ParameterResolver {

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    if (System.getProperty("nvrar.ray.venv") != null) {
      return ConditionEvaluationResult.enabled("nvrar.ray.venv is set");
    }
    String reason =
        "needs Ray: set -Dnvrar.ray.venv to a Python environment in which ray is installed";
    if (Boolean.getBoolean("nvrar.require.ray")) {
      throw new IllegalStateException(reason + "; nvrar.require.ray forbids to skip");
    }
    return ConditionEvaluationResult.disabled(reason);
  }

  @Override
  public void beforeAll(ExtensionContext context) {
    cluster(context);
  }

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    return parameter.getParameter().getType() == RayCluster.class;
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    return cluster(context);
  }

  static RayCluster cluster(ExtensionContext context) {
    boolean realGpus = context.getTags().contains("gpu");
    RayCluster cluster =
        context
            .getRoot()
            .getStore(ExtensionContext.Namespace.GLOBAL)
            .getOrComputeIfAbsent(
                RayCluster.class, type -> RayCluster.start(realGpus), RayCluster.class);
    if (cluster.hasRealGpus() != realGpus) {
      throw new IllegalStateException(
          "tests on real and on pretended GPUs need a JVM each: it is the driver of one cluster");
    }
    return cluster;
  }
}
