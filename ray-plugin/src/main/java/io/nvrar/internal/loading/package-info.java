/** Finds, unpacks and opens native libraries, and says what was tried if none can be opened. */
@NullMarked
package io.nvrar.internal.loading;

import org.jspecify.annotations.NullMarked;
