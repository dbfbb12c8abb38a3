/**
 * The actors of the tests, the calls that a driver asks of them, and what must come of those. The
 * tests of both kinds of cluster use them.
 */
@NullMarked
package io.nvrar.it.actors;

import org.jspecify.annotations.NullMarked;
