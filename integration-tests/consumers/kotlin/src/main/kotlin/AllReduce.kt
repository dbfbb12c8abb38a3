import io.nvrar.DataType
import io.nvrar.GroupConfig
import io.nvrar.standalone.GroupTicket
import io.nvrar.standalone.Groups
import java.util.concurrent.CompletableFuture

fun sum(ticket: GroupTicket, rank: Int): Float =
    Groups.join(ticket, rank).use { group ->
        group.device().allocate(DataType.FLOAT32, 1).use { buffer ->
            buffer.copyFrom(floatArrayOf(rank + 1f))
            group.allReduce(buffer)
            FloatArray(1).also { buffer.copyTo(it) }[0]
        }
    }

/** Two ranks, which are threads here, sum what each of them has. */
fun main() {
    val ticket = Groups.createTicket("consumer", 2, GroupConfig.defaults(), "127.0.0.1")
    val other = CompletableFuture.supplyAsync { sum(ticket, 1) }
    println("the sums are ${sum(ticket, 0)} and ${other.join()}")
}
