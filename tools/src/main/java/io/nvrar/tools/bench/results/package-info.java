/** Lines of results, and the program that reports them. */
@NullMarked
package io.nvrar.tools.bench.results;

import org.jspecify.annotations.NullMarked;
