/**
 * The Java binding of libnvrar's C ABI: its functions by JNA, its structs, a member's life cycle,
 * off-heap memory.
 */
@NullMarked
package io.nvrar.internal.binding;

import org.jspecify.annotations.NullMarked;
