/** Lesson 3: fused all-reduces in a captured graph. */
@NullMarked
package io.nvrar.examples.graph;

import org.jspecify.annotations.NullMarked;
