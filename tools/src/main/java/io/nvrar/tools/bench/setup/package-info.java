/** What is timed and how: the options of one run, and the values that ranks give and must get. */
@NullMarked
package io.nvrar.tools.bench.setup;

import org.jspecify.annotations.NullMarked;
