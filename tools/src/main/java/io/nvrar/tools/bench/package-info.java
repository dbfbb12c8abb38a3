/**
 * {@code nvrar bench}: the collectives timed from C++, from Java and beside Open MPI, by one
 * measurement in one run.
 */
@NullMarked
package io.nvrar.tools.bench;

import org.jspecify.annotations.NullMarked;
