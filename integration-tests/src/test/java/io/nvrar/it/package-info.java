/**
 * Tests on a real Ray cluster of this host: real actors in real processes. What several hosts do
 * differently is not tested here.
 */
@NullMarked
package io.nvrar.it;

import org.jspecify.annotations.NullMarked;
