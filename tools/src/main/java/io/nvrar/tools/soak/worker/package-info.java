/** The worker processes: they make the calls of a round's plan and report the outcomes. */
@NullMarked
package io.nvrar.tools.soak.worker;

import org.jspecify.annotations.NullMarked;
