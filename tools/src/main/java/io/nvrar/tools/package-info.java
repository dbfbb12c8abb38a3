/**
 * The command line's front: finds the commands and turns their outcome into one sentence and an
 * exit code.
 */
@NullMarked
package io.nvrar.tools;

import org.jspecify.annotations.NullMarked;
