package io.nvrar.ray;

import static org.assertj.core.api.Assertions.assertThat;

import io.nvrar.BackendUnavailableException;
import io.nvrar.CollectiveException;
import io.nvrar.CollectiveTimeoutException;
import io.nvrar.GroupMismatchException;
import io.nvrar.PeerLostException;
import io.ray.api.exception.RayActorException;
import io.ray.api.exception.RayTaskException;
import org.junit.jupiter.api.Test;

class CreationFailuresTest {

  private final CreationFailures failures = new CreationFailures("tp");

  @Test
  void theExceptionOfAnActorIsThrownItselfNotRaysWrapper() {
    PeerLostException lost = new PeerLostException("rank 2 is lost", 2, "node", 7);
    failures.add(1, new RayTaskException(10, "10.0.0.1", "Error executing task", lost));
    assertThat(failures.mostTelling()).isSameAs(lost);
  }

  @Test
  void theCauseIsToldBeforeItsConsequences() {
    BackendUnavailableException cause = new BackendUnavailableException("no library");
    failures.add(new CollectiveTimeoutException("rank 1 did not join", 1));
    failures.add(0, task(new CollectiveException("the driver aborted")));
    failures.add(2, task(new PeerLostException("rank 1 is lost", 1, "node", 7)));
    failures.add(3, task(new PeerLostException("rank 1 is lost", 1, "node", 7)));
    failures.add(1, task(cause));
    assertThat(failures.mostTelling()).isSameAs(cause);
    assertThat(cause.getSuppressed())
        .extracting(Throwable::getMessage)
        .containsExactly(
            "rank 2: rank 1 is lost", "rank 0: the driver aborted", "driver: rank 1 did not join");
  }

  @Test
  void theFailuresOfTheOtherRanksKeepTheirTypeTheirStackAndTheirCause() {
    GroupMismatchException mismatch = new GroupMismatchException("builds a and b");
    PeerLostException lost = new PeerLostException("rank 1 is lost", 1, "node", 7);
    lost.initCause(new java.io.IOException("connection reset"));
    failures.add(0, task(lost));
    failures.add(1, task(mismatch));
    assertThat(failures.mostTelling().getSuppressed())
        .singleElement()
        .extracting(Throwable::getCause)
        .isSameAs(lost);
  }

  @Test
  void aMismatchIsToldBeforeAllElse() {
    GroupMismatchException mismatch = new GroupMismatchException("builds a and b");
    failures.add(0, task(new BackendUnavailableException("no library")));
    failures.add(1, task(mismatch));
    assertThat(failures.mostTelling()).isSameAs(mismatch);
  }

  @Test
  void theDriverThatComesTooLateSaysLessThanTheMemberThatEndedTheGroup() {
    CollectiveException cause =
        new CollectiveException("links.networkInterface is 'eth9', but ...");
    failures.add(new CollectiveException("group 'tp' has no rendezvous at 10.0.0.1:7 any more"));
    failures.add(2, task(cause));
    assertThat(failures.mostTelling()).isSameAs(cause);
    assertThat(cause.getSuppressed())
        .extracting(Throwable::getMessage)
        .containsExactly("driver: group 'tp' has no rendezvous at 10.0.0.1:7 any more");
  }

  @Test
  void aDeadActorIsNamedByRankAndGroup() {
    failures.add(3, new RayActorException());
    assertThat(failures.mostTelling())
        .isInstanceOf(CollectiveException.class)
        .hasMessageStartingWith("the actor of rank 3 died while group 'tp' was created");
  }

  @Test
  void aForeignCheckedExceptionKeepsItsMessage() {
    failures.add(0, task(new java.io.IOException("disk full")));
    assertThat(failures.mostTelling())
        .isInstanceOf(CollectiveException.class)
        .hasMessage("rank 0 could not join group 'tp': disk full");
  }

  private static RayTaskException task(Throwable cause) {
    return new RayTaskException(10, "10.0.0.1", "Error executing task", cause);
  }
}
