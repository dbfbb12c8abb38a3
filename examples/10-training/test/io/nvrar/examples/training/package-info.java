@NullMarked
package io.nvrar.examples.training;

import org.jspecify.annotations.NullMarked;
