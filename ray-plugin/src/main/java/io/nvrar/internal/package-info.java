/** The JNA binding of the native library, its loader, and off-heap memory. Not for users. */
@NullMarked
package io.nvrar.internal;

import org.jspecify.annotations.NullMarked;
