/** The common parts of the buffers of all devices: elements, checks, lifetime. */
@NullMarked
package io.nvrar.internal.device.memory;

import org.jspecify.annotations.NullMarked;
