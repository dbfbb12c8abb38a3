/**
 * The processes that are members: they make the calls that a round plans and say how these ended.
 */
@NullMarked
package io.nvrar.tools.soak.worker;

import org.jspecify.annotations.NullMarked;
