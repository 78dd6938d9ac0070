//! The human seat: a person in the same room as the agents. Never shows a byte of a peer that a terminal would act on.
