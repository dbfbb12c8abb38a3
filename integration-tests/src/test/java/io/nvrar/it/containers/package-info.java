/**
 * Tests on a Ray cluster of several hosts, each a container: what differs from one host is tested
 * here, and nothing else.
 */
@NullMarked
package io.nvrar.it.containers;

import org.jspecify.annotations.NullMarked;
