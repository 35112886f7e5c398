"""A process that sends webhooks until it is killed: storage."""

import sys
import time

from everhold.ledger import LedgerStore
from everhold.service.open_holdouts import OpenHoldouts
from everhold.service.webhooks import Sender, WebhookStore, WebhookWorker

if __name__ == "__main__":
    store = WebhookStore(LedgerStore.open(sys.argv[1]).database)
    with WebhookWorker(store, OpenHoldouts(sys.argv[1]), sender=Sender(internal=True), interval=0.05):
        time.sleep(60)
