"""seckill-gdb.py - gdb commands for lists, locks and queues:

    gdb -x app/install/seckill-gdb.py -p "$(pgrep -n seckill)"
    (gdb) seckill-queues                              the queues of all workers
    (gdb) seckill-list checkout->unlocking item link  the structs in a list
    (gdb) print item->lock                            a lock, with the name of its state"""

import gdb


def elements(head, type_name, member):
    struct = gdb.lookup_type(f"struct {type_name}")
    link = head["next"]
    while link != head.address:
        yield (link.cast(gdb.lookup_type("char").pointer()) - struct[member].bitpos // 8).cast(struct.pointer())
        link = link["next"]


def count(head):
    return sum(1 for _ in elements(head, "rlock_link", "prev"))


def print_checkout(checkout):
    print(f"{checkout['in_flight']} in flight, {checkout['queued']} queued, "
          f"{count(checkout['unlocking'])} unlocking, {count(checkout['unknown'])} unknown batches")
    queues = checkout["queues"]["map"]
    for i in range(int(queues["capacity"])):
        if queues["slots"][i]["id"]:
            queue = queues["slots"][i]["value"].cast(gdb.lookup_type("struct queue").pointer())
            print(f"  voucher {queue['voucher_id']}: {count(queue['items'])} orders, "
                  f"{count(queue['split_batches'])} split batches{', busy' if queue['is_busy'] else ''}")


class ListCommand(gdb.Command):
    """seckill-list HEAD TYPE MEMBER: count and print the structs TYPE whose MEMBER is in the list HEAD."""

    def invoke(self, arguments, from_tty):
        head, type_name, member = gdb.string_to_argv(arguments)
        found = list(elements(gdb.parse_and_eval(head), type_name, member))
        print("\n".join([f"{len(found)} elements", *(f"{element} {element.dereference()}" for element in found)]))


class QueuesCommand(gdb.Command):
    """seckill-queues [CHECKOUT]: the queues of a checkout, or of all workers of `seckill serve`."""

    def invoke(self, arguments, from_tty):
        if arguments:
            print_checkout(gdb.parse_and_eval(arguments))
            return
        service = gdb.parse_and_eval("cmd_serve::service")
        for i in range(int(service["started"])):
            print(f"worker {i}:", end=" ")
            print_checkout(service["workers"][i]["checkout"])


class LockPrinter:
    def __init__(self, lock):
        self.lock = lock

    def to_string(self):
        state = self.lock["state"].cast(gdb.lookup_type("enum rlock_state"))
        name = self.lock["name"].string(length=int(self.lock["name_len"]))
        return f"lock \"{name}\" {state}, fence {self.lock['fence']}, lease {self.lock['lease_ms']} ms"


ListCommand("seckill-list", gdb.COMMAND_DATA)
QueuesCommand("seckill-queues", gdb.COMMAND_DATA)
gdb.pretty_printers.append(lambda value: LockPrinter(value) if value.type.strip_typedefs().tag == "rlock" else None)
