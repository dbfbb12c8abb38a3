package io.nvrar.examples.llama.bench;

/**
 * How long a prompt took to its first token.
 *
 * @param prefill by what it passed through the model
 * @param promptTokens its tokens
 * @param seconds from its tokens on the host to the first token there
 */
public record FirstToken(String prefill, int promptTokens, double seconds) {}
