/** What is checked of a call before it is made, and which calls are under way. */
@NullMarked
package io.nvrar.internal.call;

import org.jspecify.annotations.NullMarked;
