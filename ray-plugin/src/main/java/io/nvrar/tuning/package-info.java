/** Tuned parameters of collectives, as files. */
@NullMarked
package io.nvrar.tuning;

import org.jspecify.annotations.NullMarked;
