/** Lesson 1: an all-reduce among Ray actors. */
@NullMarked
package io.nvrar.examples.hello;

import org.jspecify.annotations.NullMarked;
