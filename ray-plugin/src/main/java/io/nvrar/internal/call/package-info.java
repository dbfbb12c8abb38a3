/** The checks of a call before it is made, and the bookkeeping of running calls. */
@NullMarked
package io.nvrar.internal.call;

import org.jspecify.annotations.NullMarked;
