/** One collective call: what every rank gives, and what every element must be afterwards. */
@NullMarked
package io.nvrar.tools.soak.call;

import org.jspecify.annotations.NullMarked;
