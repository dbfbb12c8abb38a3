/** What this package and those below hold is for the library alone and may change at any time. */
@NullMarked
package io.nvrar.internal;

import org.jspecify.annotations.NullMarked;
