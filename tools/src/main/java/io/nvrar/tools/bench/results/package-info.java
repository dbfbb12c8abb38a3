/** The rows that were measured, and the reports made of them. */
@NullMarked
package io.nvrar.tools.bench.results;

import org.jspecify.annotations.NullMarked;
