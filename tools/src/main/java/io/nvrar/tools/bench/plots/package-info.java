/** Pictures of results: what is drawn, the drawing, and the page that shows them. */
@NullMarked
package io.nvrar.tools.bench.plots;

import org.jspecify.annotations.NullMarked;
