package io.nvrar.it.containers;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Tests on a {@link ContainerCluster}, one for all of them, which a parameter of that type
 * receives. They run with {@code -Dnvrar.docker.image} only, and never skip: without a Docker
 * engine they fail.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Tag("docker")
@ExtendWith(ContainerClusterExtension.class)
@interface DockerTest {}
