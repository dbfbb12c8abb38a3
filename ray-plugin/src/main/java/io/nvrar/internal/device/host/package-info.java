/**
 * The host as a device: buffers outside the Java heap, streams that execute at once, graphs that
 * replay.
 */
@NullMarked
package io.nvrar.internal.device.host;

import org.jspecify.annotations.NullMarked;
