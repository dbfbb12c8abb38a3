package io.nvrar.it.cluster;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Tests that are the driver of a real Ray cluster, one for all of them. Without {@code
 * -Dnvrar.ray.venv} they are skipped, or fail if {@code -Dnvrar.require.ray=true}. A parameter of
 * type {@link RayCluster} receives the cluster.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Tag("ray")
@ExtendWith(RayClusterExtension.class)
public @interface RayTest {}
