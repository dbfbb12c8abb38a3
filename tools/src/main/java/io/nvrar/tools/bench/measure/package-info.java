/**
 * The measurement itself: a JVM for each rank, on the CPU or on a GPU, or a program in another
 * language.
 */
@NullMarked
package io.nvrar.tools.bench.measure;

import org.jspecify.annotations.NullMarked;
