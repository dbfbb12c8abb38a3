/** One collective call: the input of every rank, and the check of every element afterwards. */
@NullMarked
package io.nvrar.it.soak.call;

import org.jspecify.annotations.NullMarked;
