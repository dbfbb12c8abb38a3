/** Streams on which a group's calls return before they are executed. */
@NullMarked
package io.nvrar.internal.device.async;

import org.jspecify.annotations.NullMarked;
