/** Lesson 5: the metrics of a group for Prometheus. */
@NullMarked
package io.nvrar.examples.metrics;

import org.jspecify.annotations.NullMarked;
