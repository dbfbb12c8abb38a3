/**
 * Groups of Ray actors. The driver creates actors with {@link io.nvrar.ray.RayActorGroup} or with
 * Ray's API, and groups them with {@link io.nvrar.ray.RayCollectives#createGroup}. An actor
 * implements {@link io.nvrar.ray.CollectiveActor} and gets its member of a group from {@link
 * io.nvrar.ray.RayCollectives#group}.
 */
@NullMarked
package io.nvrar.ray;

import org.jspecify.annotations.NullMarked;
