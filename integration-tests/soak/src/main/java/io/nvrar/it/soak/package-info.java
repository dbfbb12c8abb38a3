/**
 * {@code nvrar soak}: random collectives in random groups of processes, with faults at random
 * moments, for as long as asked. Every result is compared bit for bit with sums computed in Java,
 * every failure with the expected outcome of the fault, and the resources of every process with
 * those it had before.
 *
 * <p>{@link io.nvrar.it.soak.Soak} is the controller: it draws {@link io.nvrar.it.soak.plan.Round}s
 * from the seed, lets {@link io.nvrar.it.soak.worker.WorkerMain} processes run them, and injects
 * faults into these processes. Some of the processes are on {@link
 * io.nvrar.it.soak.SimulatedHosts}, so that groups have links.
 */
@NullMarked
package io.nvrar.it.soak;

import org.jspecify.annotations.NullMarked;
