/**
 * Groups of plain Java processes, without Ray: {@link io.nvrar.standalone.Groups} makes a ticket
 * and joins by it.
 */
@NullMarked
package io.nvrar.standalone;

import org.jspecify.annotations.NullMarked;
