/**
 * Groups of Ray actors. The driver makes actors with {@link io.nvrar.ray.RayActorGroup} (or by
 * itself) and a group of them with {@link io.nvrar.ray.RayCollectives#createGroup}; an actor is a
 * {@link io.nvrar.ray.CollectiveActor} and takes its member with {@link
 * io.nvrar.ray.RayCollectives#group}.
 */
@NullMarked
package io.nvrar.ray;

import org.jspecify.annotations.NullMarked;
