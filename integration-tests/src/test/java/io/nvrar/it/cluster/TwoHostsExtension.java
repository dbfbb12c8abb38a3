package io.nvrar.it.cluster;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Starts a {@link SecondHost} for the tests of a class; JUnit closes it behind them. The class is
 * left out where there are fewer than two GPUs.
 */
public final class TwoHostsExtension implements BeforeAllCallback {

  @Override
  public void beforeAll(ExtensionContext context) throws Exception {
    RayCluster cluster = RayClusterExtension.cluster(context);
    assumeTrue(cluster.gpus() >= 2, "two hosts need two GPUs");
    context
        .getStore(ExtensionContext.Namespace.create(TwoHostsExtension.class))
        .put(SecondHost.class, SecondHost.start(cluster));
  }
}
