/** One member of a group, from the join to the end, and the group that its user holds. */
@NullMarked
package io.nvrar.internal.group;

import org.jspecify.annotations.NullMarked;
