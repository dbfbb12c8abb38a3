/** What the fuzz targets share; the targets stand beside what they try. */
@NullMarked
package io.nvrar.fuzz;

import org.jspecify.annotations.NullMarked;
