/**
 * {@code nvrar soak}: random collectives in random groups of processes, with faults at random
 * moments, for as long as asked. Every result is compared bit for bit with sums made in Java, every
 * failure with what the fault promises, and every process with what it held before.
 *
 * <p>{@link io.nvrar.tools.soak.Soak} is the controller: it draws {@link
 * io.nvrar.tools.soak.plan.Round}s from the seed, has {@link io.nvrar.tools.soak.worker.WorkerMain}
 * processes run them, and breaks these processes.
 */
@NullMarked
package io.nvrar.tools.soak;

import org.jspecify.annotations.NullMarked;
