/** What the tests of real clusters must see of the library's inside. */
@NullMarked
package io.nvrar.ray;

import org.jspecify.annotations.NullMarked;
