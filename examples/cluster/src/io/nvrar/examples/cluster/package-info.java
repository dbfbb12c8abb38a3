/** How the commands of the lessons connect to a Ray cluster, and leave it. */
@NullMarked
package io.nvrar.examples.cluster;

import org.jspecify.annotations.NullMarked;
