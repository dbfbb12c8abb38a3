package io.nvrar.tools;

import java.util.concurrent.Callable;

/**
 * A subcommand of {@code bin/nvrar}: a class annotated with picocli's {@code @Command} and listed
 * in {@code META-INF/services/io.nvrar.tools.NvrarCommand}. {@link #call} returns the exit code; an
 * exception's message is printed as one sentence.
 */
public interface NvrarCommand extends Callable<Integer> {}
