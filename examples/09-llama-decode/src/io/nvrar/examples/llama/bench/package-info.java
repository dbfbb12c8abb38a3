/** How fast a decode step is: what a rank measures, what that is compared with, and the report. */
@NullMarked
package io.nvrar.examples.llama.bench;

import org.jspecify.annotations.NullMarked;
