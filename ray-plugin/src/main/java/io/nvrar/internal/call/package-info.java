/** The checks of a call's arguments, and which calls can still complete. */
@NullMarked
package io.nvrar.internal.call;

import org.jspecify.annotations.NullMarked;
