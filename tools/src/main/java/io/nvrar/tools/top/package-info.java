/** {@code nvrar top}: what the groups on this host, or on a running Ray cluster, do now. */
@NullMarked
package io.nvrar.tools.top;

import org.jspecify.annotations.NullMarked;
