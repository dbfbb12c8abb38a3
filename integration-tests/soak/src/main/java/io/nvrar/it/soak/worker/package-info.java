/** The worker processes: they make the calls of a round's plan and report the outcomes. */
@NullMarked
package io.nvrar.it.soak.worker;

import org.jspecify.annotations.NullMarked;
