/**
 * The Ray cluster that all tests of a JVM share: what starts it, what marks the tests that need it,
 * and what makes another JVM a driver of it.
 */
@NullMarked
package io.nvrar.it.cluster;

import org.jspecify.annotations.NullMarked;
