/** Lesson 2: an all-reduce among plain JVM processes. */
@NullMarked
package io.nvrar.examples.processes;

import org.jspecify.annotations.NullMarked;
