/** {@code nvrar tune}: finds by measurement how calls of each size run fastest here. */
@NullMarked
package io.nvrar.tools.tune;

import org.jspecify.annotations.NullMarked;
