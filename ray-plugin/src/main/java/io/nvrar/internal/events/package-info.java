/** Events of the JDK's flight recorder, in the category ray-nvrar. */
@NullMarked
package io.nvrar.internal.events;

import org.jspecify.annotations.NullMarked;
