/** Metrics of groups for Micrometer, which users of this package add to their class path. */
@NullMarked
package io.nvrar.micrometer;

import org.jspecify.annotations.NullMarked;
