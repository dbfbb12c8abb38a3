/** The devices of this process, by backend. */
@NullMarked
package io.nvrar.device;

import org.jspecify.annotations.NullMarked;
