/**
 * Drivers other than the tests themselves, each a program of its own that a test starts and
 * watches, and what a driver leaves on disk.
 */
@NullMarked
package io.nvrar.it.drivers;

import org.jspecify.annotations.NullMarked;
