"""Pull queues: tasks that come due wait here until a consumer leases them, and are its for a while.

due task --> backlog --lease--> message_leases --ack--> completed
by queue           token, deadline --nack, or run out--> backlog

queues           takes tasks from the due index and hands them to consumers
backlog          what is due and waits, by queue
message_leases   what consumers have, each with a token
"""

from tickwheel.scheduler.queues.message_leases import Message
from tickwheel.scheduler.queues.queues import Queues

__all__ = ["Message", "Queues"]
