/** Lesson 4: a group whose actors are on several hosts. */
@NullMarked
package io.nvrar.examples.hosts;

import org.jspecify.annotations.NullMarked;
