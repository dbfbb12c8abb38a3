/**
 * Everything that the processes of a group exchange, and its encoding: tickets, messages, failures,
 * configurations.
 */
@NullMarked
package io.nvrar.internal.wire;

import org.jspecify.annotations.NullMarked;
