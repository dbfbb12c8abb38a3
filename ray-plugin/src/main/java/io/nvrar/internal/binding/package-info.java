/**
 * The C ABI of libnvrar in Java: its calls by JNA, its structs, a member's life, off-heap memory.
 */
@NullMarked
package io.nvrar.internal.binding;

import org.jspecify.annotations.NullMarked;
