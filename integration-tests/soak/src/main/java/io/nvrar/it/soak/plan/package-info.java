/** What a round does, drawn from its seed and number alone: groups, calls, splits and one fault. */
@NullMarked
package io.nvrar.it.soak.plan;

import org.jspecify.annotations.NullMarked;
