/** Reads tuning tables from files. */
@NullMarked
package io.nvrar.tuning;

import org.jspecify.annotations.NullMarked;
