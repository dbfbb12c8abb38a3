/**
 * Groups of plain Java processes, without Ray: {@link io.nvrar.standalone.Groups} creates tickets
 * and joins groups with them.
 */
@NullMarked
package io.nvrar.standalone;

import org.jspecify.annotations.NullMarked;
