/** NVIDIA GPUs as devices, on the driver API of JCuda. */
@NullMarked
package io.nvrar.internal.device.cuda;

import org.jspecify.annotations.NullMarked;
