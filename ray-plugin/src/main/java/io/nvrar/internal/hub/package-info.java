/**
 * The rendezvous in rank 0's process: lets members in, gathers them, carries messages, notices who
 * is lost.
 */
@NullMarked
package io.nvrar.internal.hub;

import org.jspecify.annotations.NullMarked;
