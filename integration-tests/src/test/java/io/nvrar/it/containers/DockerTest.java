package io.nvrar.it.containers;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Tests on a {@link ContainerCluster}, one for all tests of a class, which a parameter of that type
 * receives. They run with {@code -Dnvrar.docker.image} only, and never skip: without a Docker
 * engine they fail. Those with the tag {@code basic} run on both versions of Ray.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Tag("docker")
@ExtendWith(ContainerClusterExtension.class)
@interface DockerTest {
  /** How many hosts there are beside the head. */
  int workers();

  /** Whether the head has resources for actors, too. */
  boolean actorsOnHead() default false;
}
