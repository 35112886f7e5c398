"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Migrate forward."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Refused: an append-only record has no way back."""
    raise NotImplementedError("the ledger cannot be downgraded; restore a backup instead")
