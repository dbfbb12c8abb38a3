/** {@code nvrar trace}: pictures of what happened when, for Chrome's and Perfetto's viewers. */
@NullMarked
package io.nvrar.tools.trace;

import org.jspecify.annotations.NullMarked;
