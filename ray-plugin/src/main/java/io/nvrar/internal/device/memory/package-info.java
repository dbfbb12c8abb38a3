/** What buffers of every device have in common: their elements, their checks, their life. */
@NullMarked
package io.nvrar.internal.device.memory;

import org.jspecify.annotations.NullMarked;
