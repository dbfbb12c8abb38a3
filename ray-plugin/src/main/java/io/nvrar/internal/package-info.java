/**
 * The implementation of the library. This package and those below are not public API and may change
 * at any time.
 */
@NullMarked
package io.nvrar.internal;

import org.jspecify.annotations.NullMarked;
