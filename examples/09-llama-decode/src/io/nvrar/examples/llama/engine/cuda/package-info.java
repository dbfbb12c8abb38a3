/** The engine for GPUs: how the tokens of prompts and steps pass through a model. */
@NullMarked
package io.nvrar.examples.llama.engine.cuda;

import org.jspecify.annotations.NullMarked;
