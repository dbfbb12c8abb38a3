/**
 * What is sent, and its encoding: tickets, messages, failures, configurations; what a group is, and
 * its keys.
 */
@NullMarked
package io.nvrar.internal.wire;

import org.jspecify.annotations.NullMarked;
