package io.nvrar.it.cluster;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Tests that are the driver of a real Ray cluster whose GPUs are those of this machine. They fail
 * where there is none, and need a JVM without tests on pretended GPUs, which {@link RayTest}s have.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Tag("gpu")
@ExtendWith(RayClusterExtension.class)
public @interface GpuTest {}
