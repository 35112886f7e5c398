"""Signed webhooks: what happens in a ledger is told to receivers, at least once, and without any value."""

from __future__ import annotations

from everhold.service.webhooks.addresses import WebhookRejected
from everhold.service.webhooks.happenings import Kind
from everhold.service.webhooks.sending import Sender
from everhold.service.webhooks.store import Webhook, WebhookNotFound, WebhookStore
from everhold.service.webhooks.worker import WebhookWorker

__all__ = ["Kind", "Sender", "Webhook", "WebhookNotFound", "WebhookRejected", "WebhookStore", "WebhookWorker"]
